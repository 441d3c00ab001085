import { describe, expect, it } from '@jest/globals';
import type { MicroBatchReport } from '../../../lambda/core/observer.ts';
import { createHandler } from '../../../lambda/hosts/createHandler.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { composed, invoke, recordingTelemetry, sqsRecord } from '../../helpers/handler.ts';
import { costlyModel, TRAP } from '../../helpers/onnxModels.ts';
import type { RepositoryFiles } from '../../helpers/openModels.ts';

const server = useSqsServer();
const QUIET = { sessionOptions: { logSeverityLevel: 4 } };
const MODELS = { 'costly/1/model.onnx': costlyModel(), 'costly/config.json': QUIET };

interface Request {
  readonly x?: readonly (number | string)[];
  readonly index?: number;
  readonly [key: string]: unknown;
}

function request({ x = [1, 2, 4], index = 0, ...rest }: Request): Record<string, unknown> {
  const inputs = [
    { name: 'x', datatype: 'FP32', shape: [1, 3], data: x },
    { name: 'index', datatype: 'INT64', shape: [1], data: [index] },
  ];
  return { inputs, ...rest };
}

/** Invokes the handler with a message for each body. Returns the answers in that order, and the reports of runs. */
async function answersTo(bodies: readonly unknown[], models: RepositoryFiles = MODELS) {
  const where = { sqs: server.client(), requestQueueUrl: server.queue(), resultQueueUrl: server.queue() };
  const reports: MicroBatchReport[] = [];
  const telemetry = recordingTelemetry();
  const observer = { ...telemetry.observer, microBatch: (report: MicroBatchReport) => void reports.push(report) };
  const composition = await composed(where, { ...telemetry, observer }, { models });
  const records = bodies.map((body) => sqsRecord(body));
  expect(await invoke(createHandler(composition), records)).toEqual({ batchItemFailures: [] });
  const written = new Map(
    (await server.drain(where.resultQueueUrl)).map(({ MessageAttributes, Body = '' }) => [
      MessageAttributes?.messageId?.StringValue,
      JSON.parse(Body),
    ]),
  );
  expect(telemetry.problems).toEqual([]);
  return {
    answers: records.map(({ messageId }) => written.get(messageId)),
    messageIds: records.map(({ messageId }) => messageId),
    rows: reports.reduce((sum, { rows }) => sum + rows, 0),
    requests: reports.reduce((sum, { requests }) => sum + requests, 0),
  };
}

function outputsOf(answer: { readonly outputs?: readonly { readonly data: readonly unknown[] }[] }): unknown[] {
  return (answer.outputs ?? []).map(({ data }) => data);
}

describe('equal requests of an invocation', () => {
  it('run once, and each gets the answer under its own message ID and id', async () => {
    const bodies = Array.from({ length: 100 }, (_, at) => request({ x: [1 + (at % 70), 2, 4], id: `r-${at}` }));

    const { answers, messageIds, rows, requests } = await answersTo(bodies);

    expect({ rows, requests }).toEqual({ rows: 70, requests: 100 });
    for (const [at, answer] of answers.entries()) {
      expect(answer).toMatchObject({ message_id: messageIds[at], id: `r-${at}`, model_name: 'costly' });
      const [[first = 0, ...others] = [], value] = outputsOf(answer) as number[][];
      expect([Math.fround(first), others, value]).toEqual([Math.fround(1 / (1 + (at % 70))), [0.5, 0.25], [10]]);
    }
  });

  it('of packed messages are run for each message, so that no answers wait for other messages', async () => {
    const packed = ['a', 'b'].map((name) => [
      request({ id: name }),
      request({ id: `${name}2` }),
      request({ x: [5, 2, 4] }),
    ]);

    const { answers, rows } = await answersTo([request({ id: 'alone' }), ...packed]);

    expect(rows).toBe(5);
    expect(answers.flat().map(({ id }) => id)).toEqual(['alone', 'a', 'a2', undefined, 'b', 'b2', undefined]);
    expect(answers.flat().map(outputsOf)).toEqual(
      ['one', 'one', 'one', 'five', 'one', 'one', 'five'].map((kind) => [
        [expect.closeTo(kind === 'one' ? 1 : 0.2), 0.5, 0.25],
        [10],
      ]),
    );
  });

  it('are answered by as many as a run has rows at a time, so that answers do not pile up', async () => {
    const { answers, rows } = await answersTo(
      Array.from({ length: 40 }, () => request({})),
      {
        'costly/1/model.onnx': costlyModel(),
        'costly/config.json': { ...QUIET, maxBatchRows: 8, transform: 'transform.mjs' },
        'costly/transform.mjs': 'export function encodeBatch(all) { return all.map(() => all.length); }',
      },
    );

    expect(rows).toBe(1);
    expect(answers.map(({ result }) => result)).toEqual(answers.map(() => 8));
  });

  it('each go through the transform', async () => {
    const { answers, rows } = await answersTo(
      ['Ann', 'Bob', 'Ann'].map((name) => ({ name })),
      {
        ...MODELS,
        'costly/config.json': { ...QUIET, transform: 'transform.mjs' },
        'costly/transform.mjs': `let calls = 0;
          export function decode({ name }) {
            return [
              { name: 'x', datatype: 'FP32', shape: [1, 3], data: [name.charCodeAt(0), 2, 4] },
              { name: 'index', datatype: 'INT64', shape: [1], data: [0] },
            ];
          }
          export async function encode({ value }) {
            return { call: (calls += 1), value: value.data[0] };
          }`,
      },
    );

    expect(rows).toBe(2);
    expect(answers.map(({ result }) => result.call).toSorted()).toEqual([1, 2, 3]);
  });

  it('each get the error of their run, and their neighbours do not', async () => {
    const { answers } = await answersTo([{}, { index: 99 }, { id: 'again', index: 99 }, { index: 2 }].map(request));

    expect(answers.map(({ code }) => code)).toEqual([undefined, 'RUN_FAILED', 'RUN_FAILED', undefined]);
    expect(answers[2].id).toBe('again');
  });

  it('that end the process are each answered with an error, and their neighbours are scored', async () => {
    const indexes = [0, TRAP, 2, TRAP, 0, TRAP];

    const { answers } = await answersTo(indexes.map((index) => request({ index })));

    expect(answers.map((answer) => answer.code ?? outputsOf(answer)[1])).toEqual([
      [10],
      'MODEL_CRASHED',
      [30],
      'MODEL_CRASHED',
      [10],
      'MODEL_CRASHED',
    ]);
  });
});
