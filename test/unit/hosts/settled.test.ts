import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { failure } from '../../../lambda/core/failure.ts';
import type { WriteStatus } from '../../../lambda/core/record.ts';
import { scoreRecords } from '../../../lambda/hosts/records.ts';
import {
  enoughTime,
  lineModel,
  lineRequest,
  messageIdOf,
  repositoryOf,
  scoringDependencies,
  standardRecords,
} from '../../helpers/scoring.ts';

const BODIES = {
  scored: lineRequest([1], { id: 'a' }),
  packed: [lineRequest([1]), lineRequest([2])],
  'no JSON': 'no JSON',
  'failing run': lineRequest([13], { id: 'a' }),
  'no model now': lineRequest([1], { model_name: 'later' }),
} as const;
const anyBody = fc.constantFrom(...(Object.keys(BODIES) as (keyof typeof BODIES)[]));
/** What the store says of a result, and of the error that replaces one that it can never hold. */
const anyVerdict = fc.constantFrom('taken', 'taken', 'refused', 'too large', 'too large twice', 'no verdict');
const anyRecords = fc.array(
  fc.record({ body: anyBody, verdict: anyVerdict, receives: fc.integer({ min: 1, max: 5 }) }),
  {
    minLength: 1,
    maxLength: 12,
  },
);

const REFUSED = failure('WRITE_FAILED', 'result queue: InternalError');
const TOO_LARGE = failure('RESULT_TOO_LARGE', 'expected at most 10 bytes, got 100; send fewer rows');

describe('a record', () => {
  it('is answered where the store has taken its result or an error in place of it, and else goes back', async () => {
    await fc.assert(
      fc.asyncProperty(anyRecords, async (all) => {
        const taken = new Map<string, string[]>();
        const offered = all.map(() => 0);
        const write = async (results: readonly { messageId: string; body: string }[]): Promise<WriteStatus[]> => {
          const verdicts = new Array<WriteStatus>(results.length);
          for (const [index, { messageId, body }] of results.entries()) {
            const record = Number.parseInt(messageId.slice(-12), 16);
            offered[record] = (offered[record] ?? 0) + 1;
            const { verdict } = all[record] ?? {};
            const isReplacement = body.includes('RESULT_TOO_LARGE');
            if (verdict === 'no verdict') continue;
            if (verdict === 'refused') verdicts[index] = REFUSED;
            else if (verdict === 'too large twice' || (verdict === 'too large' && !isReplacement))
              verdicts[index] = TOO_LARGE;
            else {
              taken.set(messageId, [...(taken.get(messageId) ?? []), body]);
              verdicts[index] = { written: true };
            }
          }
          return verdicts;
        };
        const find = (name: string | undefined) => (name === 'later' ? failure('MODEL_UNAVAILABLE', 'later') : model);
        const model = lineModel({
          before([x]) {
            if (Array.from(x?.data as Float32Array).includes(13)) throw new Error('thirteen');
          },
        });
        const deps = scoringDependencies({ models: { ...repositoryOf(model), find }, writer: { write } });
        const records = standardRecords(all.map(({ body }) => BODIES[body])).map((record, index) => ({
          ...record,
          attributes: { ...record.attributes, ApproximateReceiveCount: String(all[index]?.receives) },
        }));

        const outcomes = await scoreRecords(records, deps, enoughTime());

        const told = outcomes.map((outcome) =>
          outcome.status === 'answered'
            ? [...outcome.failures.map(({ code }) => code), outcome.requests]
            : [outcome.failure.code],
        );
        const scored = { scored: [1], packed: [2], 'no JSON': ['INVALID_JSON', 1], 'failing run': ['RUN_FAILED', 1] };
        expect(told).toEqual(
          all.map(({ body, verdict }) => {
            if (body === 'no model now') return ['MODEL_UNAVAILABLE'];
            if (verdict === 'taken') return scored[body];
            return verdict === 'too large' ? ['RESULT_TOO_LARGE', body === 'packed' ? 2 : 1] : ['WRITE_FAILED'];
          }),
        );
        // What the store refuses for now is not offered again: SQS brings the record back.
        const offers = ({ body, verdict }: (typeof all)[number]): number => {
          if (body === 'no model now') return 0;
          return verdict.startsWith('too large') ? 2 : 1;
        };
        expect(offered).toEqual(all.map(offers));
        for (const [index, { body }] of all.entries()) {
          const written = (taken.get(messageIdOf(index)) ?? []).map((text) => JSON.parse(text));
          expect(written).toHaveLength(outcomes[index]?.status === 'answered' ? 1 : 0);
          const hasId = body === 'scored' || body === 'failing run';
          for (const one of written.flat())
            expect([one.message_id, one.id]).toEqual([messageIdOf(index), hasId ? 'a' : undefined]);
        }
      }),
      { numRuns: 150 },
    );
  });
});
