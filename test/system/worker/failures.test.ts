import { describe, expect, it } from '@jest/globals';
import { type Exchange, giveAnswer, hangsUp, neverAnswers, type Step } from '../../helpers/frontServer.ts';
import { useSqsServer } from '../../helpers/sqsServer.ts';
import { callOf, deployment, lookup, SLOW, slow, until } from '../../helpers/worker.ts';

const server = useSqsServer();

/** Has the first calls of a kind answered by `step`, and everything else by the server. */
function firstOf(call: ReturnType<typeof callOf>, times: number, step: Step) {
  const met: Exchange[] = [];
  const between: Step = async (exchange) => {
    if (callOf(exchange.body) !== call || met.length === times) return await giveAnswer(exchange);
    met.push(exchange);
    return await step(exchange);
  };
  return { between, met };
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
    const { between, met } = firstOf('receive', times, step);
    const { requestQueueUrl, start, results } = await deployment(server, {
      between,
      environment: { BATCHSCORE_STOP_SECONDS: '2' },
    });
    server.send(requestQueueUrl, TEN);
    const worker = start();

    expect(await results(10)).toHaveLength(10);
    expect(met).toHaveLength(times);
    const { level, message, error } = await worker.says(`receiving from ${requestQueueUrl}`);
    expect({ level, message }).toEqual({ level: 'ERROR', message: 'a call of SQS failed' });
    expect(error).toMatchObject({ message: expect.stringMatching(/'; it is tried again$/) });
    worker.send('SIGTERM');
    expect(await worker.ended).toEqual({ code: 0, signal: null });
  });
});

describe('deletes', () => {
  it.each<[what: string, step: Step]>([
    ['whose entries fail in an answer of 200', failsEveryEntry],
    ['that are refused', refuses],
  ])('%s are made again: nothing is left on the queue', async (_, step) => {
    const { between, met } = firstOf('delete', 7, step);
    const { requestQueueUrl, start, results } = await deployment(server, { between });
    server.send(requestQueueUrl, TEN);
    const worker = start();
    await until(() => server.counts(requestQueueUrl).inFlight + server.counts(requestQueueUrl).ready === 0);
    worker.send('SIGTERM');
    await worker.ended;

    expect(met).toHaveLength(7);
    expect(await results(10)).toHaveLength(10);
  });
});

describe('the heartbeat', () => {
  const VISIBILITY = { BATCHSCORE_VISIBILITY_SECONDS: '2' };

  it('keeps a message hidden from others for as long as it is scored', async () => {
    const { requestQueueUrl, start, results } = await deployment(server, { models: SLOW, environment: VISIBILITY });
    const worker = start();
    await worker.says('the worker is ready');
    server.send(requestQueueUrl, [slow(4_900)]);
    await until(() => server.counts(requestQueueUrl).inFlight === 1);
    const seen = await server.receive(requestQueueUrl, { waitSeconds: 3 });

    expect(seen).toEqual([]);
    expect(await results(1)).toHaveLength(1);
  });

  it('is tried again where SQS fails an entry', async () => {
    const { between, met } = firstOf('change visibility', 1, failsEveryEntry);
    const { requestQueueUrl, start, results } = await deployment(server, {
      models: SLOW,
      environment: VISIBILITY,
      between,
    });
    const worker = start();
    await worker.says('the worker is ready');
    server.send(requestQueueUrl, [slow(4_900)]);
    await until(() => met.length === 1);
    const seen = await server.receive(requestQueueUrl, { waitSeconds: 3 });

    expect(seen).toEqual([]);
    expect(await results(1)).toHaveLength(1);
  });

  it('that does not get through in time costs a second answer, and nothing else', async () => {
    let isDown = true;
    const between: Step = async (exchange) => {
      const isRefused = isDown && callOf(exchange.body) === 'change visibility';
      await (isRefused ? refuses(exchange) : giveAnswer(exchange));
    };
    const { requestQueueUrl, start, results } = await deployment(server, {
      models: SLOW,
      environment: VISIBILITY,
      between,
    });
    const worker = start();
    await worker.says('the worker is ready');
    server.send(requestQueueUrl, [slow(4_000)]);
    await worker.says('1 records were not extended in time');
    isDown = false;

    const answers = await results(2);

    expect(new Set(answers.map(({ message_id }) => message_id)).size).toBe(1);
    await until(() => server.counts(requestQueueUrl).inFlight + server.counts(requestQueueUrl).ready === 0);
  });
});
