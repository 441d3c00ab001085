import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Model } from '../../../../lambda/core/model.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import { closedGate, type Gate, whatCanHappen } from '../../../helpers/manualClock.ts';
import {
  echoModel,
  enoughTime,
  type InMemoryModelOptions,
  lineModel,
  lineRequest,
  messageIdOf,
  type RequestFields,
  repositoryOf,
  scoringDependencies,
  standardRecords,
  sumModel,
  sumRequest,
} from '../../../helpers/scoring.ts';
import { answerTo, statuses } from './answers.ts';

async function score(bodies: readonly unknown[], ...models: readonly Model[]) {
  const deps = scoringDependencies({ models: repositoryOf(...models) });
  const outcomes = await scoreRecords(standardRecords(bodies), deps, enoughTime());
  return { deps, outcomes };
}

const anySettings = fc.record({
  maxBatchRows: fc.integer({ min: 1, max: 12 }),
  allowedSizes: fc.constantFrom<number[]>([], [1, 4, 12], [5], [2, 3]),
});
const anyValue = fc.integer({ min: -1000, max: 1000 });
const anyLine = fc.array(anyValue, { minLength: 1, maxLength: 20 }).map((values) => lineRequest(values));
const anySum = fc.integer({ min: 1, max: 3 }).chain((width) => {
  const vector = fc.array(anyValue, { minLength: width, maxLength: width });
  return fc
    .array(fc.record({ left: vector, right: vector, bias: anyValue }), { minLength: 1, maxLength: 8 })
    .map((rows) => sumRequest(rows));
});

const anyBinaryLine = fc.array(anyValue, { minLength: 1, maxLength: 20 }).map((values) => ({
  inputs: [{ name: 'x', datatype: 'FP32', shape: [values.length, 1] }],
  raw_input_contents: [Buffer.from(Float32Array.from(values).buffer).toString('base64')],
}));

describe('a batched answer', () => {
  it.each<[string, (options?: InMemoryModelOptions) => Model, fc.Arbitrary<RequestFields>]>([
    ['one input and one output', lineModel, anyLine],
    ['several inputs and outputs', sumModel, anySum],
    ['requests in JSON and in binary', lineModel, fc.oneof(anyLine, anyBinaryLine)],
  ])('is the answer of the request alone, for a model with %s', async (_, modelOf, anyRequest) => {
    const requests = fc.array(anyRequest, { minLength: 1, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(requests, anySettings, async (bodies, settings) => {
        const { deps } = await score(bodies, modelOf(settings));
        const alone = scoringDependencies({ models: repositoryOf(modelOf()) });
        for (const record of standardRecords(bodies)) await scoreRecords([record], alone, enoughTime());

        const inOrder = (ids: readonly unknown[]) =>
          ids.map((__, record) => deps.writer.documentsOf(messageIdOf(record)));
        expect(inOrder(bodies)).toEqual(bodies.map((__, record) => alone.writer.documentsOf(messageIdOf(record))));
      }),
      { numRuns: 50 },
    );
  });

  it('costs one run for a hundred records', async () => {
    const { deps } = await score(
      Array.from({ length: 100 }, (_, i) => lineRequest([i])),
      lineModel({ runMs: 7 }),
    );
    expect(deps.reports).toEqual([
      {
        model: 'line',
        version: '1',
        requests: 100,
        rows: 100,
        paddedRows: 100,
        maxBatchRows: 512,
        paddedLength: 1,
        paddingShare: 0,
        closedBecause: 'end',
        stackMs: expect.any(Number),
        runMs: 7,
        encodeMs: expect.any(Number),
      },
    ]);
    expect(answerTo(deps.writer, 99)).toEqual([199]);
  });
});

describe('a packed message', () => {
  it('shares micro-batches with the other records of its event', async () => {
    const { deps } = await score([[lineRequest([1]), lineRequest([2])], lineRequest([3])], lineModel());
    expect(deps.reports.map(({ requests }) => requests)).toEqual([3]);
  });
});

describe('a request that was split', () => {
  it('has its rows in order even when its first run ends last', async () => {
    const gates = new Map<unknown, Gate>([1, 3, 5].map((value) => [value, closedGate()]));
    const model = lineModel({ maxBatchRows: 2, before: ([x]) => gates.get(x?.data[0])?.opened });
    const deps = scoringDependencies({ models: repositoryOf(model) });
    const scoring = scoreRecords(standardRecords([lineRequest([1, 2, 3, 4, 5])]), deps, enoughTime());

    for (const value of [3, 5, 1]) {
      gates.get(value)?.open();
      await whatCanHappen();
    }
    await scoring;

    expect(deps.reports.map(({ rows }) => rows)).toEqual([2, 1, 2]);
    expect(answerTo(deps.writer, 0)).toEqual([3, 5, 7, 9, 11]);
  });
});

describe('an answer', () => {
  it('that can only be too large is refused before it is formatted, alone and in parts', async () => {
    const wide = echoModel('FP32', [1000], { maxBatchRows: 4 });
    const deps = scoringDependencies({ models: repositoryOf(wide), limits: { maxAnswerCharacters: 8000 } });
    const rows = (count: number) => ({
      inputs: [{ name: 'in', datatype: 'FP32', shape: [count, 1000], data: new Array(count * 1000).fill(0) }],
    });
    const records = standardRecords([rows(4), rows(9), rows(3)]);
    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(['answered', 'answered', 'answered']);
    expect([0, 1].map((index) => answerTo(deps.writer, index))).toEqual(['RESULT_TOO_LARGE', 'RESULT_TOO_LARGE']);
    expect(answerTo(deps.writer, 2)).toHaveLength(3000);
  });
});
