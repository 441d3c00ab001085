import { once } from 'node:events';
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type RunningDev, startDev } from '../../../helpers/command.ts';

interface Call {
  readonly path?: string;
  readonly target?: string;
  readonly body?: object;
}

/** A page that a browser shows can call any port of this machine, by its address or by a name of its own that points here. */
describe('the servers of npm run dev', () => {
  let dev: RunningDev;
  beforeAll(async () => {
    dev = await startDev(['--results', 'queue,table']);
  });
  afterAll(async () => {
    await dev.interrupt();
  });

  async function call(endpoint: string, { path = '/', target, body }: Call, headers: OutgoingHttpHeaders) {
    const asked = request(new URL(path, endpoint), {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        'content-type': target?.startsWith('AmazonSQS') ? 'application/x-amz-json-1.0' : 'application/x-amz-json-1.1',
        authorization:
          'AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0',
        'x-amz-date': '20260101T000000Z',
        ...(target !== undefined && { 'x-amz-target': target }),
        ...headers,
      },
    }).end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    return { status: response.statusCode, said: await text(response) };
  }

  const send = () => ({
    target: 'AmazonSQS.SendMessage',
    body: { QueueUrl: dev.stack.deadLetterQueueUrl, MessageBody: 'from elsewhere' },
  });
  const received = async (): Promise<unknown> => {
    const body = { QueueUrl: dev.stack.deadLetterQueueUrl };
    const { said } = await call(dev.stack.endpoint, { target: 'AmazonSQS.ReceiveMessage', body }, {});
    return JSON.parse(said).Messages ?? [];
  };
  const calls: Record<string, () => readonly [endpoint: string | undefined, call: Call]> = {
    SQS: () => [dev.stack.endpoint, send()],
    S3: () => [dev.stack.s3Endpoint, { path: '/batchscore-payloads?list-type=2' }],
    DynamoDB: () => [dev.stack.dynamodbEndpoint, { target: 'DynamoDB_20120810.ListTables', body: {} }],
    'Step Functions': () => [
      dev.stack.sfnEndpoint,
      { target: 'AWSStepFunctions.DescribeExecution', body: { executionArn: 'none' } },
    ],
  };

  it.each(Object.keys(calls))('refuse callers of other sites: %s', async (service) => {
    const [endpoint = '', one] = calls[service]?.() ?? [];
    for (const headers of [
      { host: 'evil.example' },
      { host: 'evil.example:4566' },
      { host: 'evillocalhost' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
    ]) {
      const said = expect.stringMatching(/(Host|Origin): expected 127\.0\.0\.1 or localhost, got another; /);
      expect(await call(endpoint, one ?? {}, headers)).toEqual({ status: 403, said });
    }
    expect(await received()).toEqual([]);
  });

  it.each(['127.0.0.1', 'localhost', 'localhost:80', 'sqs.us-east-1.localhost:4566', '[::1]:4566'])(
    'serve who calls them %s',
    async (host) => {
      const { status } = await call(dev.stack.endpoint, send(), { host, origin: `http://${host}` });
      expect(status).toBe(200);
      expect(await received()).toHaveLength(1);
    },
  );
});
