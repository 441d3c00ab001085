import { createHash, createHmac } from 'node:crypto';
import dns from 'node:dns';
import { getEventListeners } from 'node:events';
import {
  type BatchResultErrorEntry,
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueUrlCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
  type SQSClientConfig,
} from '@aws-sdk/client-sqs';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { isCallersFault, outageKind } from '../../../lambda/aws/awsError.ts';
import { createAcknowledger } from '../../../lambda/aws/requestQueue.ts';
import { createQueueWriter } from '../../../lambda/aws/resultQueue.ts';
import type { SqsCaller } from '../../../lambda/aws/sqsMessages.ts';
import { createSqsCaller, HOST_PATIENCE, type Patience } from '../../../lambda/aws/sqsWire.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import {
  answersJson,
  type Exchange,
  type FrontServer,
  hangsUp,
  neverAnswers,
  type Step,
  stallsAfter,
  startFront,
} from '../../helpers/frontServer.ts';
import { startStrictSqs } from '../../helpers/strictSqs.ts';

const CREDENTIALS = { accessKeyId: 'AKID', secretAccessKey: 'secret', sessionToken: 'token' };
const QueueUrl = 'https://sqs.eu-central-1.amazonaws.com/123456789012/results';
const IMPATIENT: Patience = { connectMs: 1_500, answerMs: 300 };
const NEVER = new AbortController().signal;
const SEND = new SendMessageBatchCommand({ QueueUrl, Entries: [{ Id: '0', MessageBody: 'a' }] });
const RECEIVE = new ReceiveMessageCommand({ QueueUrl });

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function frontOf(...steps: Step[]): Promise<FrontServer> {
  const front = await startFront(undefined, steps);
  cleanups.push(front.stop);
  return front;
}

function configOf(endpoint: string, config: SQSClientConfig = {}): SQSClientConfig {
  return { region: 'eu-central-1', credentials: CREDENTIALS, endpoint, ...config };
}

function wireTo({ endpoint }: { readonly endpoint: string }, config?: SQSClientConfig, patience = HOST_PATIENCE) {
  return createSqsCaller(patience, configOf(endpoint, config));
}

function sdkTo({ endpoint }: { readonly endpoint: string }): SQSClient {
  const sdk = new SQSClient({ ...configOf(endpoint), useQueueUrlAsEndpoint: false, md5: false, maxAttempts: 1 });
  cleanups.push(() => sdk.destroy());
  return sdk;
}

async function errorOf(call: Promise<unknown>): Promise<Error & { readonly $fault?: unknown }> {
  try {
    await call;
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error('expected the call to fail with an error');
}

/** @see https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html */
function signatureOf({ method, path, headers, body }: Exchange, secret: string): string {
  const { authorization = '', 'x-amz-date': date = '' } = headers;
  const [, scope = '', names = ''] = /Credential=\w+\/(\S+), SignedHeaders=(\S+),/.exec(authorization) ?? [];
  const signed = names.split(';').map((name) => `${name}:${headers[name]}\n`);
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
  const canonical = [method, path, '', signed.join(''), names, sha256(body)].join('\n');
  const hmac = (key: Buffer | string, data: string) => createHmac('sha256', key).update(data).digest();
  const key = scope.split('/').reduce<Buffer | string>(hmac, `AWS4${secret}`);
  return hmac(key, ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n')).toString('hex');
}

const ANSWERED = answersJson(200, {});

/** What means something to SQS: `amz-sdk-…` are statistics, and the user agent tells the SDK's own features. */
function meaningOf({ method, path, headers, body }: Exchange) {
  const { authorization, 'x-amz-date': _, connection: __, 'user-agent': agent, ...others } = headers;
  const statistics = Object.keys(others).filter((name) => name.startsWith('amz-sdk-'));
  for (const name of statistics) delete others[name];
  return {
    method,
    path,
    headers: { ...others, 'x-amz-content-sha256': undefined, 'content-length': undefined },
    agent: agent?.replace(/ m\/\S+/, ''),
    signed: /SignedHeaders=(\S+),/.exec(authorization ?? '')?.[1]?.replace(/amz-sdk-[\w-]+;/g, ''),
    body: JSON.parse(body),
  };
}

const TEXT = fc.oneof(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'binary' }), fc.constant('"\\\n\u2028é😀'));
const ATTRIBUTE = fc.oneof(
  fc.record({ DataType: fc.constantFrom('String', 'Number'), StringValue: TEXT }),
  fc.record({ DataType: fc.constant('Binary'), BinaryValue: fc.uint8Array({ minLength: 1, maxLength: 40 }) }),
);
const ENTRY = fc.record(
  {
    Id: fc.nat().map(String),
    MessageBody: TEXT,
    MessageAttributes: fc.dictionary(fc.constantFrom('messageId', 'size', 'ü'), ATTRIBUTE),
    DelaySeconds: fc.option(fc.nat(900), { nil: undefined }),
    MessageGroupId: fc.option(TEXT, { nil: undefined }),
    MessageDeduplicationId: TEXT,
  },
  { requiredKeys: ['Id', 'MessageBody'] },
);
const RECEIPT = fc.record({ Id: fc.nat().map(String), ReceiptHandle: TEXT });
const entries = <T>(of: fc.Arbitrary<T>) => fc.array(of, { minLength: 1, maxLength: 10 });
const COMMANDS = fc.oneof(
  entries(ENTRY).map((Entries) => () => new SendMessageBatchCommand({ QueueUrl, Entries })),
  entries(RECEIPT).map((Entries) => () => new DeleteMessageBatchCommand({ QueueUrl, Entries })),
  entries(RECEIPT).map(
    (some) => () =>
      new ChangeMessageVisibilityBatchCommand({
        QueueUrl,
        Entries: some.map((one, VisibilityTimeout) => ({ ...one, VisibilityTimeout })),
      }),
  ),
  fc.nat(20).map(
    (WaitTimeSeconds) => () =>
      new ReceiveMessageCommand({
        QueueUrl,
        WaitTimeSeconds,
        MaxNumberOfMessages: 10,
        MessageAttributeNames: ['All'],
        MessageSystemAttributeNames: ['SentTimestamp'],
      }),
  ),
);

describe('a request', () => {
  it('means to SQS what the SDK would have sent, and is signed, for a thousand inputs', async () => {
    const front = await frontOf(...Array<Step>(2_100).fill(ANSWERED));
    const [wire, sdk] = [wireTo(front), sdkTo(front)];
    const large = () =>
      new SendMessageBatchCommand({ QueueUrl, Entries: [{ Id: '0', MessageBody: 'é'.repeat(2 ** 19) }] });
    const compare = async (commandOf: () => ReturnType<typeof large>): Promise<void> => {
      const from = front.requests.length;
      await sdk.send(commandOf());
      await wire.send(commandOf(), { abortSignal: NEVER });
      const [theirs, ours] = front.requests.slice(from) as [Exchange, Exchange];
      expect(meaningOf(ours)).toEqual(meaningOf(theirs));
      expect(ours.headers.authorization).toContain(`Signature=${signatureOf(ours, 'secret')}`);
    };
    await compare(large);
    await fc.assert(
      fc.asyncProperty(COMMANDS, (commandOf) => compare(commandOf as () => ReturnType<typeof large>)),
      { numRuns: 1_000 },
    );
  }, 60_000);

  it('carries the credentials of its time: they are asked for once, and again when they expire', async () => {
    const front = await frontOf(...Array<Step>(4).fill(ANSWERED));
    let asked = 0;
    const credentials = async () => {
      asked += 1;
      const expiration = new Date(Date.now() + (asked === 1 ? 1_000 : 3_600_000));
      return {
        accessKeyId: `AKID${asked}`,
        secretAccessKey: `secret${asked}`,
        sessionToken: `token${asked}`,
        expiration,
      };
    };
    const wire = wireTo(front, { credentials });

    for (const _ of [1, 2, 3]) await wire.send(SEND);

    expect(asked).toBe(2);
    const [, , last] = front.requests as [Exchange, Exchange, Exchange];
    expect(last.headers['x-amz-security-token']).toBe('token2');
    expect(last.headers.authorization).toContain(`Signature=${signatureOf(last, 'secret2')}`);
  });

  it('names the invocation that it is of, by which Lambda stops loops', async () => {
    const front = await frontOf(...Array<Step>(6).fill(ANSWERED));
    const wire = wireTo(front);
    cleanups.push(() => {
      Reflect.deleteProperty(globalThis, 'awslambda');
      delete process.env.AWS_LAMBDA_FUNCTION_NAME;
      delete process.env._X_AMZN_TRACE_ID;
    });
    await wire.send(SEND);
    process.env.AWS_LAMBDA_FUNCTION_NAME = 'mine';
    for (const trace of ['Root=1', 'Root=2']) {
      process.env._X_AMZN_TRACE_ID = trace;
      await wire.send(SEND);
    }

    const another = wireTo(front);
    await another.send(SEND);
    Object.assign(globalThis, { awslambda: { InvokeStore: { getXRayTraceId: () => 'Root=3' } } });
    await another.send(SEND);
    Reflect.deleteProperty(globalThis, 'awslambda');
    delete process.env._X_AMZN_TRACE_ID;
    await another.send(SEND);

    const traces = front.requests.map(({ headers }) => headers['x-amzn-trace-id']);
    expect(traces).toEqual([undefined, 'Root=1', 'Root=2', 'Root=2', 'Root=3', undefined]);
  });

  it.each<[string, SQSClientConfig]>([
    ['the region', {}],
    ['FIPS', { useFipsEndpoint: true }],
    ['IPv6', { useDualstackEndpoint: true }],
    ['both', { useFipsEndpoint: true, useDualstackEndpoint: true }],
    ['a partition', { region: 'cn-north-1' }],
  ])('goes to the endpoint that the SDK chooses: that of %s', async (_, choice) => {
    const asked: string[] = [];
    const lookup = jest.spyOn(dns, 'lookup').mockImplementation(((
      host: string,
      __: object,
      done: (error: Error) => void,
    ) => {
      asked.push(host);
      done(new Error('no names here'));
    }) as never);
    cleanups.push(() => lookup.mockRestore());
    const config = { region: 'us-gov-west-1', credentials: CREDENTIALS, ...choice };

    await errorOf(createSqsCaller(HOST_PATIENCE, config).send(SEND));
    await errorOf(new SQSClient({ ...config, useQueueUrlAsEndpoint: false, maxAttempts: 1 }).send(SEND));

    expect(asked[0]).toMatch(/^sqs.*amazonaws|api\.aws/);
    expect(asked).toEqual([asked[0], asked[0]]);
  });

  it('of another kind is the SDK’s', async () => {
    const front = await frontOf(answersJson(200, { QueueUrl }));

    const { QueueUrl: url } = await wireTo(front).send(new GetQueueUrlCommand({ QueueName: 'results' }));

    expect(url).toBe(QueueUrl);
    expect(front.requests[0]?.headers['x-amz-target']).toBe('AmazonSQS.GetQueueUrl');
  });

  it('needs a region, and is made once there is one', async () => {
    const front = await frontOf(ANSWERED);
    let region = '';
    const wire = wireTo(front, {
      region: async () => {
        if (region === '') throw new Error('Region is missing');
        return region;
      },
    });

    await expect(wire.send(SEND)).rejects.toThrow('Region is missing');
    region = 'eu-central-1';
    await wire.send(SEND);

    expect(front.requests).toHaveLength(1);
  });
});

describe.each([
  ['fauxqs', useSqsServer()],
  ['a strict server', useSqsServer(startStrictSqs)],
] as const)('the calls to %s', (_, server) => {
  it('send, receive, hide and delete', async () => {
    const url = server.queue();
    const sqs = wireTo({ endpoint: new URL(url).origin });
    const MessageAttributes = { messageId: { DataType: 'String', StringValue: 'ü' } };
    const Entries = ['a é', 'b'].map((MessageBody, id) => ({ Id: String(id), MessageBody, MessageAttributes }));

    const { Successful = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl: url, Entries }));
    expect(Successful.map(({ Id }) => Id)).toEqual(['0', '1']);
    const MessageAttributeNames = ['messageId'];
    const receive = new ReceiveMessageCommand({ QueueUrl: url, MaxNumberOfMessages: 10, MessageAttributeNames });
    const { Messages = [] } = await sqs.send(receive);
    Messages.sort((one, other) => String(one.Body).localeCompare(String(other.Body)));
    expect(Messages.map(({ Body }) => Body)).toEqual(['a é', 'b']);
    expect(Messages[0]?.MessageAttributes).toMatchObject(MessageAttributes);
    const [first, second] = Messages.map(({ ReceiptHandle }) => ({ Id: '0', ReceiptHandle }));
    await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: url, Entries: [first as never] }));
    const shown = [{ ...(second as { Id: string; ReceiptHandle: string }), VisibilityTimeout: 0 }];
    await sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: url, Entries: shown }));

    expect(server.counts(url)).toEqual({ ready: 1, inFlight: 0 });
    server.deleteQueue(url);
    await expect(sqs.send(receive)).rejects.toMatchObject({ name: 'QueueDoesNotExist', $fault: 'client' });
  });
});

/** An answer that is an error, as SQS gives it. */
function refuses(status: number, type: string, query?: string): Step {
  return ({ response }) => {
    response.writeHead(status, {
      'content-type': 'application/x-amz-json-1.0',
      'x-amzn-requestid': 'request-1',
      ...(query !== undefined && { 'x-amzn-query-error': query }),
    });
    response.end(JSON.stringify({ __type: `com.amazonaws.sqs#${type}`, message: `${type} it is` }));
  };
}

function refusesBy(headers: Readonly<Record<string, string>>, body: string): Step {
  return ({ response }) => void response.writeHead(400, { 'x-amzn-requestid': 'request-1', ...headers }).end(body);
}

describe('an error of SQS', () => {
  it.each<[string, Step]>([
    ['a missing queue', refuses(400, 'QueueDoesNotExist', 'AWS.SimpleQueueService.NonExistentQueue;Sender')],
    ['throttling', refuses(400, 'RequestThrottled', 'RequestThrottled;Sender')],
    ['a key that is off', refuses(400, 'KmsDisabled', 'KMS.DisabledException;Sender')],
    [
      'a batch that is too long',
      refuses(400, 'BatchRequestTooLong', 'AWS.SimpleQueueService.BatchRequestTooLong;Sender'),
    ],
    ['a wrong value', refuses(400, 'InvalidParameterValueException', 'InvalidParameterValue;Sender')],
    ['denial', refuses(403, 'AccessDeniedException', 'AccessDenied;Sender')],
    ['a code that nobody knows', refuses(400, 'Surprise')],
    ['an outage', refuses(503, 'ServiceUnavailable', 'ServiceUnavailable;Receiver')],
    ['a fault of its own', refuses(500, 'InternalFailure')],
    ['a name with an address', refuses(400, 'Throttling:http://internal.amazon.com/coral/')],
    ['a name of two parts', refuses(400, 'ThrottlingException#more')],
    ['a name in a header alone', refusesBy({ 'x-amzn-errortype': 'ThrottlingException:http://x' }, '')],
    ['an older name in a header alone', refusesBy({ 'x-amzn-query-error': 'AccessDenied;Sender' }, '')],
    ['a code', refusesBy({}, JSON.stringify({ code: 'ThrottlingException', Message: 'Slow down' }))],
  ])('has the name, message, fault and request ID that the SDK gives it: %s', async (_, step) => {
    const front = await frontOf(step, step);
    const [ours, theirs] = [await errorOf(wireTo(front).send(SEND)), await errorOf(sdkTo(front).send(SEND))];

    expect(ours).toMatchObject({
      name: theirs.name,
      message: theirs.message,
      $fault: theirs.$fault,
      $metadata: { httpStatusCode: expect.any(Number), requestId: 'request-1' },
    });
    expect([isCallersFault(ours), outageKind(ours)]).toEqual([isCallersFault(theirs), outageKind(theirs)]);
  });

  it('because the clock of this machine is wrong, or is set right again, sets it for the next call, and is worth one', async () => {
    const hour = 3_600_000;
    const skewed =
      (aheadMs: number): Step =>
      ({ response }) => {
        response.writeHead(403, { date: new Date(Date.now() + aheadMs).toUTCString() });
        response.end(JSON.stringify({ __type: 'com.amazonaws.sqs#InvalidSignatureException', message: 'refused' }));
      };
    const front = await frontOf(skewed(hour), skewed(0), ANSWERED);
    const wire = wireTo(front);

    for (const what of ['is wrong', 'is right again']) {
      expect([what, isCallersFault(await errorOf(wire.send(SEND)))]).toEqual([what, false]);
    }
    await wire.send(SEND);

    const aheadMs = front.requests.map(({ headers }) => {
      const [, day, time] = /^(\d{8})T(\d{6})Z$/.exec(String(headers['x-amz-date'])) ?? [];
      const signedAt = Date.parse(`${day?.replace(/(....)(..)/, '$1-$2-')}T${time?.replace(/(..)(..)/, '$1:$2:')}Z`);
      return signedAt - Date.now();
    });
    expect(aheadMs.map((ms) => ms > hour / 2)).toEqual([false, true, false]);
  });
});

const BAD_ANSWERS: Readonly<Record<string, Step>> = {
  'ends in the middle': ({ response }) => {
    response.writeHead(200, { 'content-length': '100' }).write('{"Successful":[{"Id":"0"');
    setImmediate(() => response.destroy());
  },
  'is garbage': ({ response }) => void response.end('\u0000\u0001garbage'),
  'is a page': ({ response }) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>hi</html>'),
  'is empty': ({ response }) => void response.writeHead(200).end(),
  'is half a document': ({ response }) => void response.end('{"Successful":[{"Id":"0"}'),
  'is a document of something else': answersJson(200, { Successful: 'all of them' }),
  'is a list': answersJson(200, [{ Id: '0' }]),
  'names entries by numbers': answersJson(200, { Successful: [{ Id: 0 }] }),
  'has failures without a code': answersJson(200, { Failed: [{}] as BatchResultErrorEntry[] }),
  'is an unknown error': refuses(400, 'Surprise'),
  'is an error page': ({ response }) => void response.writeHead(403, { 'content-type': 'text/html' }).end('<html>'),
  'is unavailable': refuses(503, 'ServiceUnavailable'),
  'is a redirect': ({ response }) =>
    void response.writeHead(302, { location: 'https://localhost:1/' }).end('{"Successful":[{"Id":"0"}]}'),
  'tells of an error as if it were none': answersJson(200, {
    __type: 'com.amazonaws.sqs#QueueDoesNotExist',
    Successful: [{ Id: '0' }],
  }),
  'is not HTTP': ({ response }) => void response.socket?.end('SSH-2.0-OpenSSH_9.2\r\n'),
  'has a code that is no text': answersJson(200, { Failed: [{ Id: '0', Code: { toString: 1 } }] }),
  'names what failed by a number': answersJson(200, { Successful: [{ Id: '0' }], Failed: [{ Id: 0, Code: 'Odd' }] }),
  'names what failed by nothing': answersJson(200, { Successful: [{ Id: '0' }], Failed: [{ Code: 'Odd' }] }),
  'has an error whose message is no text': ({ response }) =>
    void response.writeHead(500).end('{"__type":"InternalFailure","message":{"toString":1}}'),
  'never comes': neverAnswers,
  'never ends': stallsAfter('{"Successful":['),
  'is a connection that is closed': hangsUp,
};

describe.each(Object.entries(BAD_ANSWERS))('an answer that %s', (what, step) => {
  const retry = { attempts: 2, random: () => 0 };
  const opened = async (steps: number): Promise<[SqsCaller, FrontServer]> => {
    const front = await frontOf(...Array<Step>(steps).fill(step));
    return [wireTo(front, {}, IMPATIENT), front];
  };

  it('is no acknowledgement, of results that are sent or of messages that are deleted, and is quoted nowhere', async () => {
    const [sqs, front] = await opened(4);
    const problems: string[] = [];
    const writer = createQueueWriter({ sqs, queueUrl: QueueUrl, retry });
    const acknowledge = createAcknowledger({
      sqs,
      queueUrl: QueueUrl,
      retry,
      onProblem: (e) => problems.push(e.message),
    });
    const [result, message] = [{ messageId: 'a', body: '"a"', messageGroupId: undefined }, { receiptHandle: 'h' }];

    const outage = what === 'is an unknown error' ? undefined : { of: 'result queue', kind: 'busy' };
    const [status] = await writer.write([result], NEVER);
    expect(status).toMatchObject({ failed: true, code: 'WRITE_FAILED' });
    expect(status).toHaveProperty('outage', outage);
    expect(await acknowledge([message], NEVER)).toEqual([message]);

    expect(problems).toHaveLength(1);
    expect(problems.join()).not.toMatch(/<html|garbage|all of them/);
    expect(front.requests.length).toBeGreaterThanOrEqual(2);
  });
});

describe('an entry of several that an answer', () => {
  const [first, last] = [{ Id: '0' }, { Id: '2' }];
  it.each<[string, object, string]>([
    ['says failed, without a code', { Successful: [first, last], Failed: [{ Id: '1' }] }, 'no code'],
    ['says done and failed', { Successful: [first, { Id: '1' }, last], Failed: [{ Id: '1', Code: 'Odd' }] }, 'Odd'],
    ['does not name', { Successful: [first, last] }, 'no answer for this entry'],
    ['names by a number', { Successful: [first, { Id: 1 }, last] }, 'no answer for this entry'],
  ])('%s is not done, and the others are', async (_, answer, reason) => {
    const front = await frontOf(...Array<Step>(2).fill(answersJson(200, answer)));
    const problems: string[] = [];
    const onProblem = ({ message }: Error) => void problems.push(message);
    const options = { sqs: wireTo(front), queueUrl: QueueUrl, retry: { attempts: 1 }, onProblem };
    const results = ['a', 'b', 'c'].map((messageId) => ({ messageId, body: '"a"', messageGroupId: undefined }));
    const messages = ['a', 'b', 'c'].map((receiptHandle) => ({ receiptHandle }));

    const written = await createQueueWriter(options).write(results, NEVER);
    expect(written).toMatchObject([{ written: true }, { code: 'WRITE_FAILED' }, { written: true }]);
    expect(written[1]).toHaveProperty('message', `result queue: ${reason}`);
    expect(await createAcknowledger(options)(messages, NEVER)).toEqual([messages[1]]);

    expect(problems).toEqual([expect.stringContaining(`acknowledgement: ${reason};`)]);
  });
});

describe('an answer', () => {
  it('that has something else for a list is none', async () => {
    const front = await frontOf(answersJson(200, { Messages: 'none' }));

    expect((await errorOf(wireTo(front).send(RECEIVE))).name).toBe('UnreadableAnswer');
  });

  it('may have null for a list that it has not, as that of the SDK', async () => {
    const front = await frontOf(
      answersJson(200, { Successful: [{ Id: '0' }], Failed: null }),
      answersJson(200, { Messages: null }),
    );
    const wire = wireTo(front);

    expect((await wire.send(SEND)).Failed).toBeUndefined();
    expect((await wire.send(RECEIVE)).Messages).toBeUndefined();
  });

  it('that does not end is left when it is larger than any', async () => {
    const closed = Promise.withResolvers<void>();
    const front = await frontOf(({ response }) => {
      response.once('close', closed.resolve);
      const more = (): void => void (response.destroyed || response.write(Buffer.alloc(2 ** 20, ' '), () => more()));
      more();
    });
    const error = await errorOf(wireTo(front, {}, { ...HOST_PATIENCE, answerMs: 60_000 }).send(RECEIVE));
    await closed.promise;

    expect(error.message).toMatch(/got more than \d+ bytes/);
    expect(outageKind(error)).toBe('busy');
  });

  it('of a cache, or of no time that there is, says nothing of the clock', async () => {
    const dated =
      (headers: Readonly<Record<string, string>>) =>
      ({ response }: Exchange) =>
        void response.writeHead(200, headers).end('{}');
    const front = await frontOf(
      dated({ date: new Date(Date.now() + 3_600_000).toUTCString(), age: '3600' }),
      dated({ date: 'Sat, 13 Sep 275760 00:00:00 GMT' }),
      ANSWERED,
    );
    const wire = wireTo(front);
    for (let call = 0; call < 3; call++) await wire.send(SEND);

    const year = new Date().toISOString().slice(0, 4);
    for (const { headers } of front.requests) expect(headers['x-amz-date']).toMatch(new RegExp(`^${year}`));
    expect(new Set(front.requests.map(({ headers }) => String(headers['x-amz-date']).slice(0, 11))).size).toBe(1);
  });

  it('leaves nothing behind: no listener, no timer', async () => {
    const front = await frontOf(...Array<Step>(50).fill(ANSWERED));
    const wire = wireTo(front);
    const { signal } = new AbortController();
    const timers = () => process.getActiveResourcesInfo().filter((what) => what === 'Timeout').length;
    const before = timers();
    for (let call = 0; call < 50; call++) await wire.send(SEND, { abortSignal: signal });

    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    expect(timers() - before).toBeLessThan(25);
  });
});

describe('the time of a call', () => {
  it('counts from the first: credentials that never come are given up, and so is their call', async () => {
    const front = await frontOf();
    const wire = wireTo(front, { credentials: () => new Promise(() => {}) }, IMPATIENT);
    const aborting = new AbortController();
    const aborted = errorOf(wire.send(SEND, { abortSignal: aborting.signal }));
    const late = errorOf(wire.send(SEND));
    aborting.abort();

    expect((await aborted).name).toBe('AbortError');
    expect(await late).toMatchObject({ name: 'TimeoutError', message: expect.stringContaining('no credentials') });
    expect(outageKind(await late)).toBe('busy');
    expect(front.requests).toHaveLength(0);
  });

  it('of a receive lasts as long as it waits, and the request ends with it', async () => {
    const closed = Promise.withResolvers<void>();
    const front = await frontOf(
      ({ response }) => void setTimeout(() => response.end('{}'), 700),
      ({ response }) => void response.once('close', closed.resolve),
    );
    const wire = wireTo(front, {}, IMPATIENT);

    await wire.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 20 }));
    expect((await errorOf(wire.send(SEND))).name).toBe('TimeoutError');
    await closed.promise;
  });

  it('is as much longer for a receive as it waits for messages', async () => {
    const front = await frontOf(neverAnswers, neverAnswers);
    const wire = wireTo(front, {}, IMPATIENT);
    const ends: string[] = [];
    const end = (name: string) => (error: Error) => void ends.push(`${name}: ${error.name}`);

    const waits = new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 1 });
    await Promise.all([wire.send(waits).catch(end('receive')), wire.send(SEND).catch(end('send'))]);

    expect(ends).toEqual(['send: TimeoutError', 'receive: TimeoutError']);
  });

  it('ends with its signal, and with no other', async () => {
    const waiting = Promise.withResolvers<void>();
    const front = await frontOf(() => waiting.resolve(), ANSWERED);
    const wire = wireTo(front);
    const aborting = new AbortController();
    const call = errorOf(wire.send(RECEIVE, { abortSignal: aborting.signal }));
    await waiting.promise;
    aborting.abort();

    expect((await call).name).toBe('AbortError');
    expect((await errorOf(wire.send(RECEIVE, { abortSignal: aborting.signal }))).name).toBe('AbortError');
    await wire.send(RECEIVE, { abortSignal: NEVER });
    expect(front.requests).toHaveLength(2);
  });

  it('ends with its signal while it waits for credentials, and asks nothing of SQS', async () => {
    const front = await frontOf();
    const aborting = new AbortController();
    const credentials = async () => {
      aborting.abort();
      return CREDENTIALS;
    };
    const wire = wireTo(front, { credentials });

    expect((await errorOf(wire.send(RECEIVE, { abortSignal: aborting.signal }))).name).toBe('AbortError');
    expect(front.requests).toHaveLength(0);
  });
});
