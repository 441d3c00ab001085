import { describe, expect, it } from '@jest/globals';
import {
  backoffSeconds,
  createAcknowledger,
  createReceiver,
  createRetryDelay,
  perQueue,
} from '../../../lambda/aws/requestQueue.ts';
import { createSqsCaller, HOST_PATIENCE, type Patience } from '../../../lambda/aws/sqsWire.ts';
import type { MessageRecord } from '../../../lambda/core/record.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import {
  answersJson,
  type Exchange,
  type FrontServer,
  hangsUp,
  meter,
  neverAnswers,
  type Step,
} from '../../helpers/frontServer.ts';
import { recordOfMessage } from '../../helpers/handler.ts';

const server = useSqsServer();
const NEVER = new AbortController().signal;
const AT_ONCE = { attempts: 3, random: () => 0 };
/** Enough for what is answered, on a busy machine too. */
const IMPATIENT: Patience = { connectMs: 1_000, answerMs: 1_000 };

/** A queue whose messages `m0`, `m1`, … are all received. */
async function received(count: number) {
  const queueUrl = server.queue();
  const bodies = Array.from({ length: count }, (_, index) => `m${index}`);
  server.send(queueUrl, bodies);
  const records: MessageRecord[] = [];
  while (records.length < count) {
    const messages = await server.receive(queueUrl, { visibilitySeconds: 3_600 });
    records.push(...messages.map((message) => recordOfMessage(message, queueUrl)));
  }
  return { queueUrl, records, left: () => Object.keys(server.secondsInFlight(queueUrl)).toSorted() };
}

/** What acts on messages of a queue, by way of what answers requests in its place, and the problems it tells of. */
function acting(queueUrl: string, front?: FrontServer) {
  const problems: Error[] = [];
  const onProblem = (error: Error) => void problems.push(error);
  return { problems, options: { sqs: server.client(front, IMPATIENT), queueUrl, onProblem, retry: AT_ONCE } };
}

async function acknowledging(count: number, ...steps: (Step | undefined)[]) {
  const queue = await received(count);
  const front = await server.front(...steps);
  const { problems, options } = acting(queue.queueUrl, front);
  return { ...queue, front, problems, options, acknowledge: createAcknowledger(options) };
}

function entriesIn({ body }: Exchange): number {
  const { Entries }: { Entries: unknown[] } = JSON.parse(body);
  return Entries.length;
}

/** Deletes all but the first, which the answer says failed. */
function failingTheFirst(SenderFault: boolean): Step {
  return async (exchange) => {
    const { Entries, ...rest }: { Entries: unknown[] } = JSON.parse(exchange.body);
    const { body } = await exchange.reach(JSON.stringify({ ...rest, Entries: Entries.slice(1) }));
    const { Successful }: { Successful: unknown[] } = JSON.parse(body.toString());
    const Failed = [{ Id: '0', Code: 'SomeError', Message: 'not now', SenderFault }];
    answersJson(200, { Successful, Failed })(exchange);
  };
}

describe('acknowledged messages', () => {
  it('are deleted, ten in a batch request, sixteen requests at once', async () => {
    const { step, max } = meter(16);
    const { acknowledge, records, front, left, problems } = await acknowledging(183, ...Array<Step>(19).fill(step));

    expect(await acknowledge(records, NEVER)).toEqual([]);

    expect([left(), problems, max()]).toEqual([[], [], 16]);
    expect(front.requests.map(entriesIn).toSorted((a, b) => a - b)).toEqual([3, ...Array(18).fill(10)]);
  });

  it.each([
    ['is not deleted for now', failingTheFirst(false)],
    ['breaks the connection', hangsUp],
    ['is not answered', neverAnswers],
  ])('are deleted at the next attempt when a request %s', async (_, step) => {
    const { acknowledge, records, left, problems } = await acknowledging(12, step);

    await acknowledge(records, NEVER);

    expect([left(), problems]).toEqual([[], []]);
  });

  it('stay where SQS does not delete them in three attempts, which is told once, with the reason and the number', async () => {
    const always = failingTheFirst(false);
    const { acknowledge, records, front, left, problems } = await acknowledging(2, always, hangsUp, always, always);

    expect(await acknowledge(records, NEVER)).toEqual(records.slice(0, 1));

    expect(left()).toEqual(['m0']);
    expect(front.requests).toHaveLength(3);
    expect(problems).toEqual([
      new Error(
        'acknowledgement: SomeError: not now; messages that were not deleted ' +
          'and come back after their visibility timeout: 1',
      ),
    ]);
  });

  it('are not asked for again when it is the sender’s fault, or the queue is gone', async () => {
    const { acknowledge, records, front, problems, queueUrl } = await acknowledging(2, failingTheFirst(true));

    await acknowledge(records, NEVER);
    server.deleteQueue(queueUrl);
    await acknowledge(records, NEVER);

    expect(front.requests).toHaveLength(2);
    expect(problems.map(({ message }) => message)).toEqual([
      expect.stringContaining('acknowledgement: SomeError: not now'),
      expect.stringMatching(/^acknowledgement: QueueDoesNotExist.*: 2$/),
    ]);
  });

  it('are deleted though a request beside theirs is never answered', async () => {
    const { options, records, left, problems } = await acknowledging(25, neverAnswers);

    const undone = await createAcknowledger({ ...options, retry: { attempts: 1 } })(records, NEVER);

    expect([5, 10]).toContain(undone.length);
    expect(left()).toHaveLength(undone.length);
    expect(problems).toHaveLength(1);
  });

  it('are left when the time is up, without a throw', async () => {
    const aborting = new AbortController();
    const { acknowledge, records, left, problems } = await acknowledging(1, () => aborting.abort());

    expect(await acknowledge(records, aborting.signal)).toEqual(records);

    expect(left()).toEqual(['m0']);
    expect(problems).toEqual([
      expect.objectContaining({ message: expect.stringContaining('expected an answer before the deadline') }),
    ]);
  });
});

describe('the retry delay', () => {
  it('gives every record the backoff of its own receive count, drawn anew', async () => {
    const { queueUrl, records } = await received(23);
    const draws = [0, 0.5];
    const { options, problems } = acting(queueUrl);
    const delay = createRetryDelay({ ...options, maxReceives: 14, random: () => draws.shift() ?? 0 });

    await delay(
      records.map((record, index) => ({
        ...record,
        attributes: { ...record.attributes, ApproximateReceiveCount: String(6 + (index % 3)) },
      })),
      NEVER,
    );

    const expected = records.map(({ body }, index) => [body, [32, 61, 130][index] ?? [32, 65, 130][index % 3]]);
    expect(server.hiddenFor(queueUrl)).toEqual(Object.fromEntries(expected));
    expect(problems).toEqual([]);
  });

  it('tells of a change that SQS refuses, and makes the others', async () => {
    const { queueUrl, records } = await received(1);
    const { options, problems } = acting(queueUrl);
    const [good] = records as [MessageRecord];

    const delay = createRetryDelay({ ...options, maxReceives: 20 });
    await delay([{ ...good, receiptHandle: 'stale' }, good], NEVER);

    expect(server.hiddenFor(queueUrl)).toEqual({ m0: 1 });
    expect(problems).toEqual([
      expect.objectContaining({
        message: expect.stringMatching(/^retry delay: ReceiptHandleIsInvalid.* come back .*: 1$/),
      }),
    ]);
  });

  it.each([
    [2, [1, 4_200]],
    [5, [1, 16, 260, 4_200, 4_200]],
    [20, [1, 2, 3, 4, 6, 10, 16, 26, 41, 65, 103, 164, 260, 414, 658, 1_046, 1_662, 2_642, 4_200, 4_200]],
  ])('with %i receives grows by one factor to 70 minutes', (maxReceives, seconds) => {
    const longest = seconds.map((_, index) => backoffSeconds(index + 1, maxReceives, () => 0));
    expect(longest).toEqual(seconds);
  });

  it.each([3, 5, 20, 1_000])('lets %i receives outlast an hour, whatever the jitter', (maxReceives) => {
    let seconds = 0;
    for (let receive = 1; receive < maxReceives; receive++) seconds += backoffSeconds(receive, maxReceives, () => 1);
    expect(seconds).toBeGreaterThan(3_600);
  });

  it('is at most 0.7 of the time since the first receive, and a second, with twenty receives, whatever the jitter', () => {
    let seconds = 0;
    for (let receive = 1; receive < 20; receive++) {
      const delay = backoffSeconds(receive, 20, () => 0);
      expect(delay).toBeLessThan(0.7 * seconds + 2);
      seconds += backoffSeconds(receive, 20, () => 1);
    }
  });
});

describe('records of several queues', () => {
  it('are each deleted from the queue that they came from; those of another are told of once and left alone', async () => {
    const [one, two, other] = [await received(3), await received(2), await received(2)];
    const queueUrls = [one.queueUrl, two.queueUrl];
    const { options, problems } = acting(one.queueUrl);
    const act = (queueUrl: string) => createAcknowledger<MessageRecord>({ ...options, queueUrl });
    const acknowledge = perQueue<MessageRecord>({ ...options, queueUrls, act });

    const undone = await acknowledge([...one.records.slice(1), ...other.records, ...two.records], NEVER);

    expect(undone).toEqual(other.records);
    expect([one.left(), two.left(), other.left()]).toEqual([[one.records[0]?.body], [], ['m0', 'm1']]);
    const name = other.queueUrl.slice(other.queueUrl.lastIndexOf('/') + 1);
    expect(problems).toEqual([
      new Error(
        `expected records of ${queueUrls.join(' or ')}, got 2 of arn:aws:sqs:us-east-1:000000000000:${name}, which stay ` +
          'until their visibility timeout ends; add the URL of that queue to the request queues of the configuration, ' +
          'or remove its event source mapping',
      ),
    ]);
  });
});

describe('a received message that lacks what SQS always sends', () => {
  const good = (n: number, more: object = {}) => ({ MessageId: `m${n}`, ReceiptHandle: `h${n}`, Body: 'b', ...more });
  const receiving = async (Messages: readonly unknown[]) => {
    const front = await server.front(answersJson(200, { Messages }));
    const { problems, options } = acting(server.queue(), front);
    const credentials = { accessKeyId: 'any', secretAccessKey: 'any' };
    const sqs = createSqsCaller(HOST_PATIENCE, { endpoint: front.endpoint, region: 'us-east-1', credentials });
    return { problems, receive: createReceiver({ ...options, sqs, waitSeconds: 0, visibilitySeconds: 30 }) };
  };

  it('is left alone, and told of: its neighbours are received', async () => {
    const { problems, receive } = await receiving([
      good(0),
      { ...good(1), Body: 5 },
      null,
      { ...good(2), ReceiptHandle: undefined },
      { ...good(3), MessageId: null },
      good(4, { Attributes: null, MessageAttributes: null }),
      good(5, { Attributes: { ApproximateReceiveCount: '2.5' }, MessageAttributes: { a: null } }),
    ]);
    const records = await receive(NEVER);

    expect(records.map(({ messageId }) => messageId)).toEqual(['m0', 'm4', 'm5']);
    expect(problems.map(({ message }) => message)).toEqual([expect.stringContaining('got 4 of 7 without one of them')]);
  });

  it('is a failed receive where there is no other', async () => {
    const { problems, receive } = await receiving([null, {}]);

    await expect(receive(NEVER)).rejects.toThrow('got 2 of 2 without one of them');
    expect(problems).toEqual([]);
  });
});
