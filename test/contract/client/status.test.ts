import { writeFileSync } from 'node:fs';
import { PutItemCommand } from '@aws-sdk/client-dynamodb';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { Batchscore } from '../../../client/index.ts';
import { useDynamoDbServer, useSqsServer } from '../../helpers/awsServers.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { useFolder } from '../../helpers/folders.ts';
import { afterThisTest } from '../../helpers/openModels.ts';
import { nameOf } from '../../helpers/strictSqs.ts';

const sqs = useSqsServer();
const dynamodb = useDynamoDbServer();
const inFolder = useFolder();

/** Queues whose messages are dead at their second receive, and a table. */
async function deployment() {
  const dead = sqs.queue();
  const deadLetterTargetArn = `arn:aws:sqs:us-east-1:000000000000:${nameOf(dead)}`;
  const requests = sqs.queue({ RedrivePolicy: JSON.stringify({ deadLetterTargetArn, maxReceiveCount: '1' }) });
  const table = await dynamodb.table();
  const client = (resultTable: string | undefined = table): Batchscore => {
    const clients = { sqs: sqs.client(), dynamodb: dynamodb.client() };
    const one = new Batchscore({ ...clients, requestQueueUrl: requests, resultTable });
    afterThisTest(() => one.close());
    return one;
  };
  return {
    dead,
    requests,
    table,
    client,
    async send(count = 1): Promise<string[]> {
      const ids: string[] = [];
      for (let index = 0; index < count; index++) {
        const { MessageId = '' } = await sqs
          .client()
          .send(new SendMessageCommand({ QueueUrl: requests, MessageBody: '{}' }));
        ids.push(MessageId);
      }
      return ids;
    },
    /** Has all messages received until none is left. */
    async bury(): Promise<void> {
      const left = (): number => sqs.counts(requests).ready + sqs.counts(requests).inFlight;
      while (left() > 0) await sqs.receive(requests, { visibilitySeconds: 0 });
    },
    async answer(messageId: string, answer: object): Promise<void> {
      const named = (one: object, position?: number) => ({
        message_id: position === undefined ? messageId : `${messageId}/${position}`,
        ...one,
      });
      const body = { S: JSON.stringify(Array.isArray(answer) ? answer.map(named) : named(answer)) };
      const Item = { messageId: { S: messageId }, body };
      await dynamodb.client().send(new PutItemCommand({ TableName: table, Item }));
    },
  };
}

const PREDICTIONS = { model_name: 'line', model_version: '1', predictions: [7] };

describe('the status of a message', () => {
  it('that was answered is the result in the table', async () => {
    const { client, send, answer, table } = await deployment();
    const [id = ''] = await send();
    await answer(id, PREDICTIONS);
    const answered = { messageId: id, state: 'answered', where: table, result: { predictions: [7] }, notTold: [] };
    expect(await client().status(id)).toMatchObject(answered);
    expect(await client().status(`${id}/3`)).toMatchObject(answered);
  });

  it('that is dead says where it lies, how often it was received and when it was sent; all dead letters stay', async () => {
    const { client, send, bury, dead } = await deployment();
    const before = Date.now();
    const ids = await send(25);
    await bury();
    const status = await client().status(ids[24] ?? '');
    expect(status).toMatchObject({ state: 'dead', where: expect.stringContaining(nameOf(dead)), notTold: [] });
    expect(status.receives).toBeGreaterThanOrEqual(1);
    expect(status.sentAt?.getTime()).toBeGreaterThanOrEqual(before - 1_000);
    expect(sqs.counts(dead)).toEqual({ inFlight: 0, ready: 25 });
    expect(await client().status('another')).toMatchObject({ state: 'unknown' });
    expect(sqs.counts(dead)).toEqual({ inFlight: 0, ready: 25 });
  });

  it('is sought among a thousand dead letters, which all stay, and says that there are more', async () => {
    const { client, dead } = await deployment();
    sqs.send(dead, Array(1_005).fill('{}'));
    expect(await client().status('another')).toMatchObject({
      state: 'unknown',
      notTold: [expect.stringMatching(/is among the dead letters .*: 1000 of about 1005 were looked at$/)],
    });
    expect(sqs.counts(dead)).toEqual({ inFlight: 0, ready: 1_005 });
  });

  it('that may be on its way says what SQS cannot tell', async () => {
    const { client, send } = await deployment();
    const [id = ''] = await send(2);
    const notTold = [expect.stringMatching(/SQS counts about 2 messages, and cannot be asked for one/)];
    expect(await client().status(id)).toEqual({ messageId: id, state: 'pending', notTold });
  });

  it('asks those that can tell where others cannot, and says so', async () => {
    const { client, send, bury } = await deployment();
    const [id = ''] = await send();
    await bury();
    expect(await client('nowhere').status(id)).toMatchObject({
      state: 'dead',
      notTold: [expect.stringMatching(/^the result table nowhere could not be asked: /)],
    });
    const ofQueue = new Batchscore({ sqs: sqs.client(), requestQueueUrl: sqs.queue(), region: 'us-east-1' });
    afterThisTest(() => ofQueue.close());
    expect(await ofQueue.status(id)).toMatchObject({
      state: 'unknown',
      notTold: [expect.stringContaining('only a result table can be asked for one message')],
    });
  });

  it('is said by batchscore status, with its exit code', async () => {
    const { send, bury, answer, requests, table } = await deployment();
    const [dead = ''] = await send();
    await bury();
    const [pending = ''] = await send();
    await answer('good', PREDICTIONS);
    await answer('bad', { code: 'INVALID_JSON', error: 'body: expected JSON' });
    await answer('packed', [PREDICTIONS, { code: 'INVALID_DATA', error: 'x: expected a number' }]);
    const stack = inFolder('stack.json');
    const where = { endpoint: new URL(requests).origin, dynamodbEndpoint: dynamodb.endpoint() };
    writeFileSync(stack, JSON.stringify({ ...where, requestQueueUrl: requests, resultTable: table }));
    const said = async (id: string) => {
      const { code, stdout } = await batchscore(['status', id, '--stack', stack]);
      return [code, stdout];
    };
    expect(await said('good')).toEqual([0, `good: answered, in the result table ${table}\n`]);
    expect(await said('bad')).toEqual([
      3,
      `bad: answered, in the result table ${table}, with INVALID_JSON: body: expected JSON\n`,
    ]);
    expect(await said('packed')).toEqual([
      3,
      `packed: answered, in the result table ${table}, 1 request of it with INVALID_DATA\n`,
    ]);
    const asJson = await batchscore(['status', 'good', '--stack', stack, '--json']);
    expect(JSON.parse(asJson.stdout)).toMatchObject({
      ...{ messageId: 'good', state: 'answered' },
      result: { message_id: 'good', predictions: [7] },
    });
    expect(await said('packed/0')).toEqual([0, `packed/0: answered, in the result table ${table}\n`]);
    expect((await batchscore(['status', '../x y', '--stack', stack])).code).toBe(2);
    expect(await said(dead)).toEqual([
      3,
      expect.stringMatching(/^\S+: in the dead letters http\S+, sent \S+Z, received \d+ times/),
    ]);
    expect(await said(pending)).toEqual([
      1,
      expect.stringMatching(/^\S+: not found, perhaps still on its way\nnot told: which/),
    ]);
  });
});
