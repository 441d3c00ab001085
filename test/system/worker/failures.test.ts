import { beforeAll, describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { type Exchange, giveAnswer, hangsUp, neverAnswers, type Step } from '../../helpers/frontServer.ts';
import {
  callOf,
  type Deployment,
  deployment,
  LOOKUP,
  lookup,
  type Result,
  SLOW,
  slow,
  until,
  type WorkerProcess,
} from '../../helpers/hosts.ts';
import { closedGate } from '../../helpers/manualClock.ts';

const server = useSqsServer();

/** One worker, whose calls of SQS meet what each test says. */
let worker: WorkerProcess;
let deployed: Deployment;
let between: Step = giveAnswer;
let answered = 0;
beforeAll(async () => {
  deployed = await deployment(server, {
    models: { ...LOOKUP, ...SLOW },
    environment: { BATCHSCORE_STOP_SECONDS: '2', BATCHSCORE_VISIBILITY_SECONDS: '2' },
    between: (exchange) => between(exchange),
  });
  worker = deployed.start();
  await worker.says('the worker is ready');
});

/** Has the first calls of a kind answered by `step`, and everything else by the server. */
function firstOf(call: ReturnType<typeof callOf>, times: number, step: Step): readonly Exchange[] {
  const met: Exchange[] = [];
  between = async (exchange) => {
    if (callOf(exchange.body) !== call || met.length === times) return await giveAnswer(exchange);
    met.push(exchange);
    return await step(exchange);
  };
  return met;
}

function send(...bodies: readonly string[]): void {
  server.send(deployed.requestQueueUrl, bodies);
}

/** Waits for the answers to so many more messages. @returns them */
async function answers(count: number): Promise<readonly Result[]> {
  const all = await deployed.results(answered + count);
  const more = all.slice(answered);
  answered = all.length;
  return more;
}

function left(): number {
  const { inFlight, ready } = server.counts(deployed.requestQueueUrl);
  return inFlight + ready;
}

function refuses({ response }: Exchange): void {
  const error = JSON.stringify({ __type: 'com.amazonaws.sqs#ServiceUnavailable', message: 'try later' });
  response.writeHead(503, { 'content-type': 'application/x-amz-json-1.0' }).end(error);
}

/** Answers in the server's place that nothing was done. */
function failsEveryEntry({ body, response }: Exchange): void {
  const { Entries }: { Entries: { Id: string }[] } = JSON.parse(body);
  const Failed = Entries.map(({ Id }) => ({ Id, SenderFault: false, Code: 'InternalError', Message: 'try again' }));
  response
    .writeHead(200, { 'content-type': 'application/x-amz-json-1.0' })
    .end(JSON.stringify({ Successful: [], Failed }));
}

const TEN = Array.from({ length: 10 }, (_, index) => lookup(index));

describe('receives', () => {
  it.each<[what: string, step: Step, times: number]>([
    ['that are refused', refuses, 3],
    ['whose connection is cut', hangsUp, 3],
    ['that are never answered', neverAnswers, 1],
  ])('%s are made again, and everything is answered', async (_, step, times) => {
    const met = firstOf('receive', times, step);
    await until(() => met.length === times);
    send(...TEN);

    expect(await answers(10)).toHaveLength(10);
    const { level, message, error } = await worker.says(`receiving from ${deployed.requestQueueUrl}`);
    expect({ level, message }).toEqual({ level: 'ERROR', message: 'a call of SQS failed' });
    expect(error).toMatchObject({ message: expect.stringMatching(/'; it is tried again$/) });
  });
});

describe('deletes', () => {
  it.each<[what: string, step: Step]>([
    ['whose entries fail in an answer of 200', failsEveryEntry],
    ['that are refused', refuses],
  ])('%s are made again: nothing is left on the queue', async (_, step) => {
    const met = firstOf('delete', 7, step);
    send(...TEN);

    expect(await answers(10)).toHaveLength(10);
    await until(() => left() === 0);
    expect(met).toHaveLength(7);
  });
});

describe('the heartbeat', () => {
  it.each<[what: string, failures: number]>([
    ['keeps a message hidden from others for as long as it is scored', 0],
    ['is tried again where SQS fails an entry', 1],
  ])('%s', async (_, failures) => {
    const met = firstOf('change visibility', failures, failsEveryEntry);
    send(slow(3_900));
    await until(() => server.counts(deployed.requestQueueUrl).inFlight === 1 && met.length === failures);

    expect(await server.receive(deployed.requestQueueUrl, { waitSeconds: 3 })).toEqual([]);
    expect(await answers(1)).toHaveLength(1);
  });

  it('that does not get through in time costs a second answer, and nothing else', async () => {
    let isDown = true;
    between = async (exchange) => {
      const isRefused = isDown && callOf(exchange.body) === 'change visibility';
      await (isRefused ? refuses(exchange) : giveAnswer(exchange));
    };
    send(slow(4_000));
    await worker.says('1 records were not extended in time');
    isDown = false;

    expect(new Set((await answers(2)).map(({ message_id }) => message_id)).size).toBe(1);
    await until(() => left() === 0);
  });
});

it('what waits for a batch and was not extended in time is left to whoever receives it next: it has one answer', async () => {
  let isDown = true;
  const { requestQueueUrl, resultQueueUrl, start } = await deployment(server, {
    models: LOOKUP,
    environment: { BATCHSCORE_VISIBILITY_SECONDS: '2', BATCHSCORE_WINDOW_SECONDS: '4' },
    async between(exchange) {
      const isRefused = isDown && callOf(exchange.body) === 'change visibility';
      await (isRefused ? refuses(exchange) : giveAnswer(exchange));
    },
  });
  const other = start();
  server.send(requestQueueUrl, [lookup(1)]);
  await other.says('1 records were not extended in time');
  isDown = false;
  await until(() => server.counts(requestQueueUrl).inFlight + server.counts(requestQueueUrl).ready === 0);
  other.send('SIGTERM');
  await other.ended;

  expect(server.counts(resultQueueUrl).ready).toBe(1);
});

it('a heartbeat under way does not undo what SQS is told next: when a message is to come back', async () => {
  const answered = closedGate();
  const calls: string[] = [];
  const { requestQueueUrl, start } = await deployment(server, {
    models: SLOW,
    // The heartbeat begins after 3 to 3.75 s, and is given up 3 s later.
    environment: { BATCHSCORE_VISIBILITY_SECONDS: '9' },
    async between(exchange) {
      if (callOf(exchange.body) !== 'change visibility') return await giveAnswer(exchange);
      calls.push('asked');
      await answered.opened;
      calls.push('answered');
      await giveAnswer(exchange);
    },
  });
  const other = start();
  server.send(requestQueueUrl, [slow(3_900, true)]);
  await other.says('records go back to SQS');
  expect(await server.receive(requestQueueUrl, { waitSeconds: 1 })).toEqual([]);
  expect(calls).toEqual(['asked']);
  answered.open();
  await until(() => calls.length === 4);

  expect(calls).toEqual(['asked', 'answered', 'asked', 'answered']);
  other.send('SIGTERM');
  await other.ended;
});

it('the worker ends with 0 after all of this', async () => {
  worker.send('SIGTERM');
  expect(await worker.ended).toEqual({ code: 0, signal: null });
});
