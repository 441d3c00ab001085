import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import {
  type DeploymentOptions,
  deployment,
  type Host,
  LOOKUP,
  lookup,
  type Result,
  SLOW,
  slow,
  until,
  useHosts,
} from '../../helpers/hosts.ts';
import { nameOf, redrivePolicy, type StrictSqs, startStrictSqs } from '../../helpers/strictSqs.ts';

const hosts = useHosts();
let sqs: StrictSqs;
const server = useSqsServer(async () => {
  sqs = await startStrictSqs();
  return sqs;
});

afterEach(() => sqs.intercept());

/** `npm run test:drains` ends workers a hundred times. */
const TIMES = Number(process.env.DRAINS ?? 3);
/** Of all replacements together: one takes three seconds where nothing else runs. */
const LONGEST_MS = 180_000 + 15_000 * TIMES;
const MESSAGES = 600;

/** After how many answers a worker is told to end: spread evenly, the same in each run. */
const MOMENTS = Array.from({ length: Math.ceil(TIMES / 2) }, (_, index) => {
  const golden = (Math.sqrt(5) - 1) / 2;
  return 1 + Math.floor((MESSAGES - 1) * ((golden * (index + 1)) % 1));
});

/** A worker whose messages go to the dead letters after five receives. */
async function deployed(options: DeploymentOptions = {}) {
  const deadLetterQueueUrl = server.queue();
  const attributes = { RedrivePolicy: redrivePolicy(deadLetterQueueUrl, 5) };
  const made = await deployment(server, { attributes, ...options });
  const name = nameOf(made.requestQueueUrl);
  return {
    ...made,
    openPolls: () => sqs.openPolls(name),
    messages: () => sqs.history(name),
    left: () => sqs.history(name).filter(({ fate }) => fate !== 'deleted' && fate !== 'dead').length,
    deadLetters: () => sqs.history(nameOf(deadLetterQueueUrl)).length,
  };
}

const PACKINGS = {
  'a message for each result': {},
  'results that share messages': { BATCHSCORE_RESULTS_PER_MESSAGE: '10000' },
};

describe('1. Nothing is acknowledged before its result is written', () => {
  describe.each(Object.entries(PACKINGS))('a worker under load, with %s', (_, environment) => {
    let host: Host;
    beforeAll(async () => {
      host = await hosts.start('the worker', { models: LOOKUP, environment });
    });

    /** Has it end once it has answered so many of many messages. @returns those of the messages, and of their answers */
    async function endedAfter(answers: number, end: () => Promise<void>) {
      const before = host.written().length;
      const ids = host.send(lookups(0, MESSAGES));
      await until(() => host.written().length >= before + answers);
      await end();
      const inFlight = host.fates(ids).filter((fate) => fate === 'in flight');
      await host.become('deleted', ids);
      expect(await host.answers(ids)).toHaveLength(MESSAGES);
      return { inFlight, written: host.written().length - before };
    }

    it.each(MOMENTS)('loses, hides and repeats nothing by SIGTERM, after %j answers', async (answers) => {
      const { inFlight, written } = await endedAfter(answers, async () => {
        expect(await host.replace()).toBe(0);
      });

      expect(inFlight).toEqual([]);
      expect(written).toBe(MESSAGES);
    });

    it.each(MOMENTS.slice(0, Math.ceil(TIMES / 3)))('loses nothing by SIGKILL, after %j answers', async (answers) => {
      await endedAfter(answers, () => host.kill());
    });
  });
});

describe('workers that are replaced while producers go on sending', () => {
  it(
    `answer everything, and spend no receive on a drain, ${TIMES} times`,
    async () => {
      const made = await deployed({ environment: { BATCHSCORE_MAX_POLLS: '8' } });
      const { requestQueueUrl, start, results } = made;
      let sent = 0;
      const send = (count: number): void => {
        server.send(requestQueueUrl, lookups(sent, count));
        sent += count;
      };
      let worker = start();
      await worker.says('the worker is ready');
      const producer = setInterval(() => send(1), 20);
      for (let time = 0; time < TIMES; time++) {
        // So many that it opens all its polls.
        send(300);
        await until(() => made.openPolls() >= 6);
        const next = start();
        await next.says('the worker is ready');
        await until(() => made.openPolls() >= 6);
        worker.send('SIGTERM');
        expect(await worker.ended).toEqual({ code: 0, signal: null });
        worker = next;
      }
      clearInterval(producer);
      await until(() => made.left() === 0);

      expect(made.deadLetters()).toBe(0);
      expectOneAnswerEach(await results(sent), sent);
      expect(new Set(made.messages().map(({ receives }) => receives))).toEqual(new Set([1]));
    },
    LONGEST_MS,
  );
});

describe('what comes while a worker drains', () => {
  it('is scored at once, whatever the window', async () => {
    const { start, requestQueueUrl, openPolls, results, messages } = await deployed({
      environment: { BATCHSCORE_WINDOW_SECONDS: '60', BATCHSCORE_STOP_SECONDS: '4' },
    });
    const worker = start();
    await worker.says('the worker is ready');
    server.send(requestQueueUrl, lookups(0, 1));
    await until(() => server.counts(requestQueueUrl).inFlight === 1 && openPolls() === 1);
    worker.send('SIGTERM');
    await worker.says('told to end');
    server.send(requestQueueUrl, lookups(1, 1));

    expect(await worker.ended).toEqual({ code: 0, signal: null });
    expect(await worker.says('the worker has drained')).toMatchObject({ finished: 2, handedBack: 0 });
    expectOneAnswerEach(await results(2), 2);
    expect(messages()).toMatchObject(Array(2).fill({ receives: 1, fate: 'deleted' }));
  });
});

describe('what fails for now while a worker drains', () => {
  it('comes back after its open polls, which would receive it', async () => {
    const { start, requestQueueUrl, openPolls, messages } = await deployed({
      models: { ...LOOKUP, ...SLOW },
      environment: { BATCHSCORE_STOP_SECONDS: '8' },
    });
    const worker = start();
    await worker.says('the worker is ready');
    server.send(requestQueueUrl, [slow(500, true)]);
    await until(() => server.counts(requestQueueUrl).inFlight === 1 && openPolls() === 1);
    worker.send('SIGTERM');

    expect(await worker.ended).toEqual({ code: 0, signal: null });
    expect(messages()).toMatchObject([{ receives: 1 }]);
  });
});

describe('a poll that does not return', () => {
  it('is given up when the time to drain is over: the worker still hands back what it holds, and ends with 0', async () => {
    const { start, requestQueueUrl, openPolls, messages } = await deployed({
      models: { ...LOOKUP, ...SLOW },
      environment: { BATCHSCORE_STOP_SECONDS: '4' },
    });
    const worker = start();
    await worker.says('the worker is ready');
    await until(() => openPolls() === 1);
    let unanswered = 0;
    sqs.intercept(({ operation }) => {
      if (operation !== 'ReceiveMessage') return undefined;
      unanswered += 1;
      return 'silence';
    });
    server.send(requestQueueUrl, [slow(4_900)]);
    await until(() => unanswered > 0);
    worker.send('SIGTERM');

    expect(await worker.ended).toEqual({ code: 0, signal: null });
    expect(messages()).toMatchObject([{ receives: 1, fate: 'ready' }]);
  });
});

function lookups(first: number, count: number): string[] {
  return Array.from({ length: count }, (_, index) => lookup(first + index));
}

/** Answers may come more than once; then they are the same. */
function expectOneAnswerEach(answers: readonly Result[], messages: number): void {
  const byId = Map.groupBy(answers, ({ message_id }) => message_id);
  expect(byId.size).toBe(messages);
  for (const same of byId.values()) {
    const contents = same.map(({ sentAt: _, ...answer }) => JSON.stringify(answer));
    expect(new Set(contents).size).toBe(1);
  }
}
