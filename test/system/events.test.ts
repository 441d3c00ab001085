import { CreateQueueCommand, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { createAnnounce } from '../../lambda/aws/announce.ts';
import { createSqsClient, HOST_PATIENCE } from '../../lambda/aws/sqsWire.ts';
import { MAX_RECEIVES } from '../../lambda/core/limits.ts';
import { useS3Server } from '../helpers/awsServers.ts';
import { answersJson, startFront } from '../helpers/frontServer.ts';
import { lookupRequest } from '../helpers/handler.ts';
import { aMoment, HOSTS, type HostName, useHosts } from '../helpers/hosts.ts';
import { lookupModel } from '../helpers/onnxModels.ts';
import { afterThisTest } from '../helpers/openModels.ts';

const MODELS = {
  'lookup/1/model.onnx': lookupModel(),
  'down/1/model.onnx': lookupModel(),
  'down/transform.mjs': `export const decodeBatch = () => {
    throw Object.assign(new RangeError('of "a body"'), { retryable: true });
  };`,
  'down/config.json': { transform: 'transform.mjs' },
};
const CREDENTIALS = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' };

/** Twenty receives take a fifth of a second. */
const hosts = useHosts(0.02);
/** It has topics and queues too. */
const server = useS3Server();

/** Sends what is answered and what never is, until the latter lies in the dead letters. */
async function sendSome(name: HostName, arn: string, endpoint: Readonly<Record<string, string>>) {
  const host = await hosts.start(name, {
    models: MODELS,
    environment: {
      ...CREDENTIALS,
      ...endpoint,
      BATCHSCORE_EVENTS_ARN: arn,
      BATCHSCORE_MAX_RECEIVE_COUNT: String(MAX_RECEIVES),
    },
  });
  const answered = host.send([lookupRequest(0)]);
  const dead = host.send(Array.from({ length: 5 }, () => ({ model_name: 'down' })));
  await Promise.all([host.become('deleted', answered), host.become('dead', dead)]);
  const events = dead.map((messageId) => ({
    event: 'dead-letter',
    messageId,
    queue: expect.stringContaining(host.requests),
    receives: MAX_RECEIVES,
    code: 'TRANSFORM_UNAVAILABLE',
    message: "transform of model 'down': expected an answer, got RangeError, which it calls retryable",
  }));
  return { host, events };
}

async function callSns(parameters: Readonly<Record<string, string>>): Promise<void> {
  const answer = await fetch(server.endpoint(), { method: 'POST', body: new URLSearchParams(parameters) });
  expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)]);
}

const byId = (one: { readonly messageId: string }, other: { readonly messageId: string }) =>
  one.messageId < other.messageId ? -1 : 1;

describe('a bus that refuses some events', () => {
  it('is told of all others, asked once more to take those, and named with what is left', async () => {
    const told: string[] = [];
    const bus = await startFront(undefined, ({ body, response }) => {
      const ids: string[] = JSON.parse(body).Entries.map(({ Detail = '' }) => JSON.parse(Detail).messageId);
      const isRefused = (id: string) => id === '3' || (id === '4' && !told.includes(id));
      const Entries = ids.map((id) => (isRefused(id) ? { ErrorCode: 'Busy' } : { EventId: id }));
      told.push(...ids);
      response.writeHead(200, { 'content-type': 'application/x-amz-json-1.1' }).end(JSON.stringify({ Entries }));
    });
    afterThisTest(bus.stop);
    Object.assign(process.env, CREDENTIALS, { AWS_ENDPOINT_URL_EVENTBRIDGE: bus.endpoint });
    const ids = Array.from({ length: 35 }, (_, index) => String(index));
    const about = { event: 'dead-letter', queue: 'arn', receives: 5, code: 'DEADLINE', message: '' } as const;
    const arn = 'arn:aws:events:eu-west-1:123456789012:event-bus/ends';

    await expect(createAnnounce(arn)(ids.map((messageId) => ({ ...about, messageId })))).rejects.toThrow(
      /expected arn:.* to take 35 events, it refused 1: \["Busy"\]/,
    );
    expect(told).toEqual([...ids, '3', '4']);
  });
});

describe.each(HOSTS)('%s', (name) => {
  it('tells a bus of each message that goes to the dead letters, once', async () => {
    const taken = answersJson(200, { FailedEntryCount: 0, Entries: [{ EventId: '1' }] });
    const bus = await startFront(
      undefined,
      Array.from({ length: 50 }, () => taken),
    );
    afterThisTest(bus.stop);
    const arn = 'arn:aws:events:eu-west-1:123456789012:event-bus/ends';
    const { events } = await sendSome(name, arn, { AWS_ENDPOINT_URL_EVENTBRIDGE: bus.endpoint });
    const entries = bus.requests.flatMap(({ body }) => JSON.parse(body).Entries);
    const details = entries.map(({ Detail }) => JSON.parse(Detail));
    expect(details.toSorted(byId)).toEqual(events.toSorted(byId));
    expect(entries[0]).toMatchObject({ EventBusName: arn, Source: 'batchscore', DetailType: 'dead-letter' });
    expect(bus.requests[0]?.headers).toMatchObject({
      'x-amz-target': 'AWSEvents.PutEvents',
      authorization: expect.stringContaining('/eu-west-1/events/aws4_request'),
    });
  });

  it('tells a topic, whose subscribers can tell events apart', async () => {
    const credentials = { accessKeyId: 'a', secretAccessKey: 'b' };
    const sqs = createSqsClient(HOST_PATIENCE, { endpoint: server.endpoint(), region: 'us-east-1', credentials });
    afterThisTest(async () => sqs.destroy());
    const own = name.replaceAll(' ', '-');
    const { QueueUrl = '' } = await sqs.send(new CreateQueueCommand({ QueueName: own }));
    const TopicArn = `arn:aws:sns:us-east-1:000000000000:${own}`;
    const Endpoint = `arn:aws:sqs:us-east-1:000000000000:${own}`;
    const raw = { 'Attributes.entry.1.key': 'RawMessageDelivery', 'Attributes.entry.1.value': 'true' };
    await callSns({ Action: 'CreateTopic', Name: own });
    await callSns({ Action: 'Subscribe', TopicArn, Protocol: 'sqs', Endpoint, ...raw });
    const { events } = await sendSome(name, TopicArn, { AWS_ENDPOINT_URL_SNS: server.endpoint() });
    const told: { readonly messageId: string }[] = [];
    const receive = { QueueUrl, MaxNumberOfMessages: 10, MessageAttributeNames: ['All'], WaitTimeSeconds: 5 };
    while (told.length < events.length) {
      const { Messages = [] } = await sqs.send(new ReceiveMessageCommand(receive));
      expect(Messages[0]?.MessageAttributes?.event?.StringValue).toBe('dead-letter');
      told.push(...Messages.map(({ Body = '' }) => JSON.parse(Body)));
    }
    expect(told.toSorted(byId)).toEqual(events.toSorted(byId));
  });

  it('goes on where it cannot tell, and says so', async () => {
    const bus = await startFront(
      undefined,
      answersJson(200, { FailedEntryCount: 1, Entries: [{ ErrorCode: 'Busy' }] }),
    );
    afterThisTest(bus.stop);
    const arn = 'arn:aws:events:eu-west-1:123456789012:event-bus/ends';
    const { host } = await sendSome(name, arn, { AWS_ENDPOINT_URL_EVENTBRIDGE: bus.endpoint });
    expect(await host.says('events: ')).toMatchObject({
      message: expect.stringMatching(/^events: \d+ dead letters: expected arn:.* it refused .*"Busy"/),
    });
  });
});

it('the worker ends only after the bus has taken what it is told', async () => {
  const isAsked = Promise.withResolvers<void>();
  const mayAnswer = Promise.withResolvers<void>();
  const bus = await startFront(
    undefined,
    Array.from({ length: 50 }, () => async ({ response }) => {
      isAsked.resolve();
      await mayAnswer.promise;
      response.end('{"FailedEntryCount":0,"Entries":[{"EventId":"1"}]}');
    }),
  );
  afterThisTest(bus.stop);
  const arn = 'arn:aws:events:eu-west-1:123456789012:event-bus/ends';
  const { host } = await sendSome('the worker', arn, { AWS_ENDPOINT_URL_EVENTBRIDGE: bus.endpoint });
  await isAsked.promise;
  const ended = host.stop();
  const hasDrained = () => host.printed().includes('the worker has drained');
  while (hosts.sqs().openPolls(host.requests) > 0) await aMoment();
  for (let moment = 0; moment < 100 && !hasDrained(); moment++) await aMoment();

  expect(hasDrained()).toBe(false);
  mayAnswer.resolve();
  expect(await ended).toBe(0);
});
