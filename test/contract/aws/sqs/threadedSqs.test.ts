import { once } from 'node:events';
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
} from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { HOST_PATIENCE } from '../../../../lambda/aws/awsClients.ts';
import { isCallersFault } from '../../../../lambda/aws/awsError.ts';
import { type CallReport, ofAttempt } from '../../../../lambda/aws/observedCalls.ts';
import { createThreadedSqs, LOOK_MS } from '../../../../lambda/aws/sqsThreads.ts';
import { giveAnswer, neverAnswers, type Step } from '../../../helpers/frontServer.ts';
import { createManualClock } from '../../../helpers/manualClock.ts';
import { afterThisTest, alive, watchThreads } from '../../../helpers/openModels.ts';
import { useSqsServer } from '../../../helpers/sqsServer.ts';

const server = useSqsServer();

/** What makes calls of the server at an endpoint, and the threads that it has started. */
function callsOf(endpoint: string, mostThreads = 1) {
  const threads = watchThreads();
  const clock = createManualClock();
  const reports: CallReport[] = [];
  const problems: string[] = [];
  const counts: number[] = [];
  const sqs = createThreadedSqs({
    spec: {
      patience: { ...HOST_PATIENCE, answerMs: 300 },
      pollPatience: HOST_PATIENCE,
      client: { endpoint, region: 'us-east-1', credentials: { accessKeyId: 'test', secretAccessKey: 'test' } },
    },
    mostThreads,
    onThread: (count) => void counts.push(count),
    onCall: (report) => void reports.push(report),
    onProblem: (error) => void problems.push(String(error)),
    clock,
  });
  afterThisTest(sqs.close);
  /** Has the load looked at by a call. */
  const look = async (): Promise<void> => {
    clock.advance(LOOK_MS);
    await sqs.send(new GetQueueAttributesCommand({ QueueUrl: server.queue() })).catch(() => {});
  };
  return { sqs, threads, counts, reports, problems, look };
}

type Calls = ReturnType<typeof callsOf>;

function keepBusy(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

/** Keeps this event loop busy until there is a thread that makes calls. */
async function withThread(endpoint: string): Promise<Calls> {
  const calls = callsOf(endpoint);
  while (calls.threads.length === 0) {
    await calls.look();
    keepBusy(100);
    await calls.look();
  }
  // It says when it is ready.
  await once(calls.threads[0] ?? process, 'message');
  return calls;
}

function originOf(queueUrl: string): string {
  return new URL(queueUrl).origin;
}

function batchOf(QueueUrl: string, ...bodies: string[]): SendMessageBatchCommand {
  return new SendMessageBatchCommand({
    QueueUrl,
    Entries: bodies.map((MessageBody, id) => ({ Id: String(id), MessageBody })),
  });
}

function receiveFrom(QueueUrl: string, WaitTimeSeconds = 0): ReceiveMessageCommand {
  return new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds });
}

/** What takes a thread far longer to read than to hear. */
const tedious: Step = ({ response }) => {
  response.writeHead(200, { 'content-type': 'application/x-amz-json-1.0' });
  response.end(`{"Tedious":[${'[],'.repeat(300_000)}[]]}`);
};

/** Answers nothing but what a look at the load asks for. */
const silentToMessages: Step = (exchange) =>
  String(exchange.headers['x-amz-target']).endsWith('GetQueueAttributes')
    ? giveAnswer(exchange)
    : neverAnswers(exchange);

describe('calls of SQS', () => {
  it('are made in no thread while the event loop has time for them', async () => {
    const queueUrl = server.queue();
    const { sqs, threads, look } = callsOf(originOf(queueUrl));
    await sqs.send(receiveFrom(queueUrl, 1));
    await look();

    expect(threads).toHaveLength(0);
  });

  it('are made in no thread where there is to be none', async () => {
    const { threads, look } = callsOf(originOf(server.queue()), 0);
    await look();
    keepBusy(200);
    await look();

    expect(threads).toHaveLength(0);
  });

  it('are made in one more thread when those there are have much to do', async () => {
    const front = await server.front(...Array<Step>(1_000).fill(tedious));
    const { sqs, threads, counts, look } = callsOf(front.endpoint, 2);
    while (counts.length < 2) {
      await Promise.all(Array.from({ length: 4 }, () => sqs.send(receiveFrom(server.queue()))));
      await look();
    }
    for (let more = 0; more < 3; more++) {
      await Promise.all(Array.from({ length: 4 }, () => sqs.send(receiveFrom(server.queue()))));
      await look();
    }

    expect(counts).toEqual([1, 2]);
    expect(threads).toHaveLength(2);
  });
});

describe('calls of SQS in a thread', () => {
  it('give what those of a client give', async () => {
    const queueUrl = server.queue();
    const { sqs, threads } = await withThread(originOf(queueUrl));
    let replies = 0;
    threads[0]?.on('message', () => void replies++);

    const sent = await sqs.send(batchOf(queueUrl, 'a é', 'b'));
    expect(sent.Successful?.map(({ Id }) => Id)).toEqual(['0', '1']);
    const { Messages = [] } = await sqs.send(receiveFrom(queueUrl));
    expect(Messages.map(({ Body }) => Body)).toEqual(['a é', 'b']);
    const [first, second] = Messages.map(({ ReceiptHandle }) => ({ Id: '0', ReceiptHandle: ReceiptHandle ?? '' }));
    if (first === undefined || second === undefined) throw new Error('expected two messages');
    await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries: [first] }));
    const Entries = [{ ...second, VisibilityTimeout: 0 }];
    await sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: queueUrl, Entries }));

    expect(server.counts(queueUrl)).toEqual({ ready: 1, inFlight: 0 });
    expect(replies).toBe(4);
  });

  it('fail as those of a client do, and say whose fault it was', async () => {
    const queueUrl = server.queue();
    server.deleteQueue(queueUrl);
    const { sqs } = await withThread(originOf(queueUrl));
    const errorOf = (calls: Pick<Calls['sqs'], 'send'>): Promise<Error> =>
      calls.send(receiveFrom(queueUrl)).then(
        () => new Error('it was done'),
        (error: Error) => error,
      );
    const [threads, clients] = [await errorOf(sqs), await errorOf(server.client())];

    expect(threads.name).toBe('QueueDoesNotExist');
    expect([threads.name, threads.message]).toEqual([clients.name, clients.message]);
    expect([threads, clients].map(isCallersFault)).toEqual([true, true]);
  });

  it('say by its code what kept them from SQS', async () => {
    const front = await server.front();
    const { sqs } = await withThread(front.endpoint);
    await front.stop();

    const error = await sqs.send(receiveFrom(server.queue())).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'ECONNREFUSED' });
    expect(isCallersFault(error)).toBe(false);
  });

  it('have a time of their own, and receives a longer one', async () => {
    const front = await server.front(...Array<Step>(1_000).fill(silentToMessages));
    const { sqs } = await withThread(front.endpoint);
    const ends: string[] = [];
    const end = (name: string) => (error: Error) => void ends.push(`${name}: ${error.name}`);

    await Promise.all([
      sqs.send(receiveFrom(server.queue())).catch(end('receive')),
      sqs.send(batchOf(server.queue(), 'a')).catch(end('send')),
    ]);
    expect(ends).toEqual(['send: TimeoutError', 'receive: TimeoutError']);
  });

  it('are left by their signal', async () => {
    const queueUrl = server.queue();
    const front = await server.front();
    const { sqs } = await withThread(front.endpoint);
    const aborting = new AbortController();
    const call = sqs.send(receiveFrom(queueUrl, 20), { abortSignal: aborting.signal });
    aborting.abort();

    await expect(call).rejects.toMatchObject({ name: 'AbortError' });
    await expect(sqs.send(batchOf(queueUrl, 'a'), { abortSignal: aborting.signal })).rejects.toThrow();
    expect(server.counts(queueUrl)).toEqual({ ready: 0, inFlight: 0 });
  });

  it('are reported, with what the caller noted of them', async () => {
    const queueUrl = server.queue();
    const { sqs, reports } = await withThread(originOf(queueUrl));
    reports.length = 0;
    await sqs.send(ofAttempt(2, batchOf(queueUrl, 'a', 'b')));
    await sqs.send(receiveFrom(`${queueUrl}-that-there-is-not`)).catch(() => {});

    const call = { aws: 'SQS', ms: expect.any(Number) };
    expect(reports).toEqual([
      { ...call, operation: 'SendMessageBatch', entries: 2, attempt: 2, outcome: 'done' },
      { ...call, operation: 'ReceiveMessage', entries: 1, attempt: 1, outcome: 'failed', error: 'QueueDoesNotExist' },
    ]);
  });
});

describe('a thread that ends', () => {
  it('fails its calls at once, which may be tried again, and says so', async () => {
    const queueUrl = server.queue();
    const { sqs, threads, problems } = await withThread(originOf(queueUrl));
    const lost = sqs.send(receiveFrom(queueUrl, 20)).catch((error: unknown) => error);
    await threads[0]?.terminate();
    const error = await lost;

    expect(String(error)).toBe('Error: a thread that calls SQS ended with code 1');
    expect(isCallersFault(error)).toBe(false);
    expect(problems).toEqual([String(error)]);
    await sqs.send(batchOf(queueUrl, 'a'));
    expect(server.counts(queueUrl).ready).toBe(1);
  });

  it('is replaced when there is too much to do again', async () => {
    const queueUrl = server.queue();
    const { threads, look } = await withThread(originOf(queueUrl));
    await threads[0]?.terminate();
    while (alive(threads).length === 0) {
      await look();
      keepBusy(100);
      await look();
    }

    expect(threads).toHaveLength(2);
  });

  it('because all are to end is no problem', async () => {
    const { sqs, threads, problems } = await withThread(originOf(server.queue()));
    await sqs.close();

    expect(alive(threads)).toEqual([]);
    expect(problems).toEqual([]);
  });
});
