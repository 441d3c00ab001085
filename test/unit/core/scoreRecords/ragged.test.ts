import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Model } from '../../../../lambda/core/model.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import {
  enoughTime,
  messageIdOf,
  repositoryOf,
  scoringDependencies,
  standardRecords,
  tokensModel,
  tokensRequest,
} from '../../../helpers/scoring.ts';
import { answerTo, statuses } from './answers.ts';

async function score(bodies: readonly unknown[], model: Model, maxBatchElements = 1_000_000) {
  const deps = scoringDependencies({ models: repositoryOf(model), limits: { maxBatchElements } });
  const outcomes = await scoreRecords(standardRecords(bodies), deps, enoughTime());
  return { deps, outcomes };
}

const LONGEST = 12;

const anyRequest = fc
  .record({
    rows: fc.integer({ min: 1, max: 6 }),
    length: fc.integer({ min: 1, max: LONGEST }),
    outputs: fc.subarray([{ name: 'total' }, { name: 'doubled' }], { minLength: 1 }),
    seed: fc.nat({ max: 1000 }),
  })
  .map(({ rows, length, outputs, seed }) => {
    const tokens = Array.from({ length: rows }, (_, row) =>
      Array.from({ length }, (__, at) => seed + 31 * row + 7 * at),
    );
    return tokensRequest(tokens, { outputs });
  });

const anySettings = fc.record({
  maxBatchRows: fc.integer({ min: 1, max: 8 }),
  allowedSizes: fc.constantFrom<number[]>([], [4], [1, 3, 8]),
  lengths: fc.constantFrom<number[]>([], [LONGEST], [2, 6, 16]),
});

describe('a model with a ragged axis', () => {
  it('answers every request as it answers that request alone, whatever shares its run', async () => {
    const work = fc.tuple(
      fc.array(anyRequest, { minLength: 1, maxLength: 10 }),
      anySettings,
      fc.integer({ min: 1, max: 400 }),
    );
    await fc.assert(
      fc.asyncProperty(work, async ([bodies, settings, maxBatchElements]) => {
        const { deps } = await score(bodies, tokensModel(settings), maxBatchElements);
        const alone = scoringDependencies({ models: repositoryOf(tokensModel()) });
        for (const record of standardRecords(bodies)) await scoreRecords([record], alone, enoughTime());
        const answers = ({ writer }: typeof alone) =>
          bodies.map((_, record) => writer.documentsOf(messageIdOf(record)));
        expect(answers(deps)).toEqual(answers(alone));
      }),
      { numRuns: 100 },
    );
  });

  it('refuses what is longer than its longest allowed size, and scores what is as long', async () => {
    const model = tokensModel({ lengths: [2, 4] });
    const { deps, outcomes } = await score([tokensRequest([[1, 2, 3, 4]]), tokensRequest([[1, 2, 3, 4, 5]])], model);

    expect(statuses(outcomes)).toEqual(['answered', 'answered']);
    expect(answerTo(deps.writer, 0)).toEqual([10]);
    expect(deps.writer.documentsOf(messageIdOf(1))).toEqual([
      {
        message_id: messageIdOf(1),
        code: 'INVALID_SHAPE',
        error: "inputs: expected at most 4 along 'length', got 5; send a shorter one",
      },
    ]);
  });

  it('fails a request alone whose outputs did not keep the axis', async () => {
    const model = tokensModel();
    const cutting: Model = {
      ...model,
      async run(inputs) {
        const { outputs, runMs } = await model.run(inputs);
        const [total, doubled] = outputs as [(typeof outputs)[number], (typeof outputs)[number]];
        return { outputs: [total, { ...doubled, shape: [doubled.shape[0] ?? 0, 1] }], runMs };
      },
    };
    const { deps } = await score([tokensRequest([[1]]), tokensRequest([[1, 2]])], cutting);
    expect([answerTo(deps.writer, 0), answerTo(deps.writer, 1)]).toEqual([[1], 'RUN_FAILED']);
  });
});

describe('the report of a micro-batch', () => {
  it('says what it was padded to, and how much of it nobody sent', async () => {
    const bodies = [tokensRequest([[1, 2, 3, 4]]), tokensRequest([[1], [2]])];
    const { deps } = await score(bodies, tokensModel({ allowedSizes: [4], lengths: [5] }));
    // A row is as many tokens, as many of the mask, and an offset.
    const sent = 1 * (4 + 4 + 1) + 2 * (1 + 1 + 1);
    const run = 4 * (5 + 5 + 1);
    expect(deps.reports).toMatchObject([
      { requests: 2, rows: 3, paddedRows: 4, paddedLength: 5, maxBatchRows: 512, closedBecause: 'end' },
    ]);
    expect(deps.reports[0]?.paddingShare).toBeCloseTo(1 - sent / run);
    expect(1 - sent / run).toBeCloseTo(0.659, 3);
  });

  it('counts of a request that was cut the rows that ran', async () => {
    const { deps } = await score([tokensRequest([[1], [2], [3]])], tokensModel({ allowedSizes: [2], maxBatchRows: 2 }));
    expect(deps.reports).toMatchObject([
      { rows: 2, paddingShare: 0, closedBecause: 'full' },
      { rows: 1, paddingShare: 0.5, closedBecause: 'end' },
    ]);
  });
});
