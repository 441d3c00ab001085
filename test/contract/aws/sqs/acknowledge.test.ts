import { describe, expect, it } from '@jest/globals';
import type { Patience } from '../../../../lambda/aws/awsClients.ts';
import { type AcknowledgerOptions, createAcknowledger } from '../../../../lambda/aws/requestQueue.ts';
import type { MessageRecord } from '../../../../lambda/core/record.ts';
import { useSqsServer } from '../../../helpers/awsServers.ts';
import { answersJson, type Exchange, hangsUp, meter, neverAnswers, type Step } from '../../../helpers/frontServer.ts';
import { recordOfMessage } from '../../../helpers/handler.ts';

const server = useSqsServer();
const NEVER = new AbortController().signal;
const AT_ONCE = { attempts: 3, random: () => 0 };
const LONG = { visibilitySeconds: 3_600 };
/** Enough for what is answered, on a busy machine too. */
const IMPATIENT: Patience = { connectMs: 1_000, answerMs: 1_000 };

/** A queue whose messages are all received, behind what answers requests in its place. */
async function received(count: number, ...steps: (Step | undefined)[]) {
  const queueUrl = server.queue();
  server.send(
    queueUrl,
    Array.from({ length: count }, (_, index) => `m${index}`),
  );
  const records: MessageRecord[] = [];
  while (records.length < count) {
    records.push(...(await server.receive(queueUrl, LONG)).map((message) => recordOfMessage(message, queueUrl)));
  }
  const front = await server.front(...steps);
  const problems: unknown[] = [];
  const acknowledger = (options: Partial<AcknowledgerOptions> = {}) =>
    createAcknowledger({
      sqs: server.client(front, IMPATIENT),
      queueUrl,
      onProblem: (error) => void problems.push(error),
      retry: AT_ONCE,
      ...options,
    });
  const left = () => Object.keys(server.secondsInFlight(queueUrl)).toSorted();
  return { queueUrl, records, front, problems, acknowledger, left };
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
  it('are deleted, ten in a batch request', async () => {
    const { acknowledger, records, front, left, problems } = await received(23);

    await acknowledger()(records, NEVER);

    expect(left()).toEqual([]);
    expect(front.requests.map(entriesIn).toSorted()).toEqual([10, 10, 3]);
    expect(problems).toEqual([]);
  });

  it('are deleted by several batch requests at once, and by no more than it is told', async () => {
    const { step, max } = meter();
    const { acknowledger, records } = await received(40, step, step, step, step);

    await acknowledger({ concurrency: 2 })(records, NEVER);

    expect(max()).toBe(2);
  });
});

describe('what SQS does not delete', () => {
  it.each([
    ['is not deleted for now', failingTheFirst(false)],
    ['breaks the connection', hangsUp],
    ['is not answered', neverAnswers],
  ])('is deleted at the next attempt when the request %s', async (_, step) => {
    const { acknowledger, records, left, problems } = await received(12, step);

    await acknowledger()(records, NEVER);

    expect([left(), problems]).toEqual([[], []]);
  });

  it('is told of once, with the reason and the number, and stays until its visibility ends', async () => {
    const always = failingTheFirst(false);
    const { acknowledger, records, front, left, problems } = await received(2, always, hangsUp, always, always);

    await acknowledger()(records, NEVER);

    expect(left()).toEqual(['m0']);
    expect(front.requests).toHaveLength(3);
    expect(problems).toEqual([expect.objectContaining({ message: expect.stringMatching(/^acknowledgement: .*: 1$/) })]);
  });

  it('is not asked for again when it is the sender’s fault', async () => {
    const { acknowledger, records, front, problems } = await received(2, failingTheFirst(true));

    await acknowledger()(records, NEVER);

    expect(front.requests).toHaveLength(1);
    expect(problems).toEqual([
      new Error(
        'acknowledgement: SomeError: not now; messages that were not deleted, ' +
          "and come back when their queue's timeout ends: 1",
      ),
    ]);
  });

  it('costs no other message its acknowledgement when it is never answered', async () => {
    const { acknowledger, records, left, problems } = await received(25, neverAnswers);

    await acknowledger({ retry: { attempts: 1 } })(records, NEVER);

    expect([5, 10]).toContain(left().length);
    expect(problems).toHaveLength(1);
  });

  it('is left when the time is up, without a throw', async () => {
    const aborting = new AbortController();
    const { acknowledger, records, left, problems } = await received(1, (exchange) => {
      neverAnswers(exchange);
      aborting.abort();
    });

    await acknowledger()(records, aborting.signal);

    expect(left()).toEqual(['m0']);
    expect(problems).toEqual([
      expect.objectContaining({ message: expect.stringContaining('expected an answer before the deadline') }),
    ]);
  });

  it('is told of when the queue is gone', async () => {
    const { acknowledger, records, queueUrl, front, problems } = await received(1);
    server.deleteQueue(queueUrl);

    await acknowledger()(records, NEVER);

    expect(front.requests).toHaveLength(1);
    expect(problems).toEqual([
      expect.objectContaining({ message: expect.stringContaining('acknowledgement: QueueDoesNotExist') }),
    ]);
  });
});
