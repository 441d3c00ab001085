import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Failure, failure, isTransient } from '../../../lambda/core/failure.ts';
import type { DecodedBody, DecodedRequest, ScoringRequest } from '../../../lambda/core/microBatch.ts';
import { createReplies, isHandedBack, type Reply } from '../../../lambda/core/replies.ts';
import { lineModel } from '../../helpers/scoring.ts';
import { zeros } from './requests.ts';

const PERMANENT = failure('INVALID_SHAPE', 'wrong');
const TRANSIENT = failure('DEADLINE', 'late');
const MAX_CHARACTERS = 300;

/** What a request of a body is decoded to, and what becomes of it when it is run. */
type Fate = 'refused' | 'refused for now' | 'scored' | 'failed' | 'failed for now' | 'long';
const FAILING: readonly Fate[] = ['failed', 'failed for now', 'refused', 'refused for now', 'long'];
const anyFate = fc.oneof(fc.constant<Fate>('scored'), fc.constantFrom(...FAILING));
/** A single request, or those of a packed body; and the order in which all of them are answered, some twice. */
const anyWork = fc
  .array(fc.oneof(anyFate, fc.array(anyFate, { minLength: 1, maxLength: 4 })), { minLength: 1, maxLength: 5 })
  .chain((bodies) => {
    const places = bodies.flatMap((body, of) => [body].flat().map((_, position) => ({ of, position })));
    const order = fc.tuple(
      fc.shuffledSubarray(places, { minLength: places.length }),
      fc.array(fc.constantFrom(...places), { maxLength: 3 }),
    );
    return fc.record({ bodies: fc.constant(bodies), order: order.map((two) => two.flat()) });
  });

const request = zeros(lineModel(), 1);
const requestAt = (bodyIndex: number, position: number): ScoringRequest => {
  return { ...request, bodyIndex, position, id: `${bodyIndex}.${position}` };
};
const scores = (fate: Fate, { id }: ScoringRequest): string => JSON.stringify({ id }).padEnd(fate === 'long' ? 301 : 1);

function decodedTo(fate: Fate, record: number, position: number): DecodedRequest {
  const refused = { id: `${record}.${position}` };
  if (fate === 'refused') return { ...refused, failure: PERMANENT };
  if (fate === 'refused for now') return { ...refused, failure: TRANSIENT };
  return requestAt(record, position);
}

/** Plays the events: what was replied to each body, in the order in which it was told. */
function replay(bodies: readonly (Fate | Fate[])[], order: readonly { of: number; position: number }[]) {
  const told = bodies.map((): Reply[] => []);
  const completed: number[] = [];
  const keyed = bodies.map((_, index) => ({ key: `key ${index}`, body: '' }));
  const replies = createReplies(keyed, MAX_CHARACTERS, (body) => void completed.push(body));
  const tell = (reply: Reply | undefined): void => void (reply && told[reply.of]?.push(reply));
  for (const [of, body] of bodies.entries()) {
    const decoded: DecodedBody = Array.isArray(body)
      ? body.map((fate, position) => decodedTo(fate, of, position))
      : decodedTo(body, of, 0);
    tell(replies.register(of, decoded));
  }
  for (const { of, position } of order) {
    const fate = [bodies[of] as Fate | Fate[]].flat()[position] as Fate;
    const one = requestAt(of, position);
    const failed: Failure | undefined = { failed: PERMANENT, 'failed for now': TRANSIENT }[fate as string];
    if (fate.startsWith('refused')) continue;
    tell(failed === undefined ? replies.recordScores(one, scores(fate, one)) : replies.recordFailure(one, failed));
  }
  return { told, completed, replies };
}

describe('who is owed a reply', () => {
  it('has exactly one, whatever becomes of its requests, in whatever order and however often they are answered', () => {
    fc.assert(
      fc.property(anyWork, ({ bodies, order }) => {
        const { told, completed, replies } = replay(bodies, order);
        expect(told.map(({ length }) => length)).toEqual(bodies.map(() => 1));
        expect(completed.toSorted()).toEqual([...bodies.keys()]);
        expect(bodies.every((_, index) => replies.isComplete(index))).toBe(true);
        expect(bodies.flatMap((_, index) => replies.handBack(index, TRANSIENT) ?? [])).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  it('is answered with all its answers in its own order, errors among them, or handed back, or told that they are too long', () => {
    fc.assert(
      fc.property(anyWork, ({ bodies, order }) => {
        const { told } = replay(bodies, order);
        for (const [of, body] of bodies.entries()) {
          const [reply] = told[of] as [Reply];
          const fates = [body].flat();
          if (isHandedBack(reply)) {
            expect(fates.some((fate) => fate.endsWith('for now'))).toBe(true);
            expect(isTransient(reply.failure)).toBe(true);
            continue;
          }
          const answers = [JSON.parse(reply.text)].flat();
          expect(Array.isArray(JSON.parse(reply.text))).toBe(
            Array.isArray(body) && answers[0].code !== 'RESULT_TOO_LARGE',
          );
          expect(reply.requests).toBe(fates.length);
          if (answers[0].code === 'RESULT_TOO_LARGE') {
            expect([answers.length, reply.failures.map(({ code }) => code)]).toEqual([1, ['RESULT_TOO_LARGE']]);
            expect(answers[0].message_id).toBe(`key ${of}`);
            expect(answers[0].id).toBe(Array.isArray(body) ? undefined : `${of}.0`);
            continue;
          }
          expect(fates).not.toContain('long');
          expect(fates.some((fate) => fate.endsWith('for now'))).toBe(false);
          expect(answers.map(({ id }) => id)).toEqual(fates.map((_, position) => `${of}.${position}`));
          const errors = fates.map((fate) => (fate === 'scored' ? undefined : 'INVALID_SHAPE'));
          expect(answers.map(({ code }) => code)).toEqual(errors);
          expect(reply.failures.map(({ code }) => code)).toEqual(errors.filter((code) => code !== undefined));
        }
      }),
      { numRuns: 500 },
    );
  });

  it('is handed back where the answers of packed bodies that wait for others would take too much memory together', () => {
    const bodies = Array.from({ length: 10 }, (): Fate[] => ['scored', 'scored']);
    const keyed = bodies.map((_, index) => ({ key: `key ${index}`, body: '' }));
    const replies = createReplies(keyed, 100, () => {});
    for (const of of bodies.keys()) replies.register(of, [requestAt(of, 0), requestAt(of, 1)]);
    const first = [...bodies.keys()].map((of) => replies.recordScores(requestAt(of, 0), 'x'.repeat(90)));
    expect(first.map((reply) => reply !== undefined && isHandedBack(reply) && reply.failure.code)).toEqual([
      ...new Array(4).fill(false),
      ...new Array(6).fill('OUT_OF_MEMORY'),
    ]);
    expect(replies.recordScores(requestAt(0, 1), 'x')).toMatchObject({ of: 0, requests: 2 });
  });

  it('is handed back as early after packed bodies whose answers were too long', () => {
    const keyed = Array.from({ length: 20 }, (_, index) => ({ key: `key ${index}`, body: '' }));
    const replies = createReplies(keyed, 100, () => {});
    const answerFirst = (of: number): Reply | undefined => {
      replies.register(of, [requestAt(of, 0), requestAt(of, 1)]);
      return replies.recordScores(requestAt(of, 0), 'x'.repeat(90));
    };
    for (let of = 0; of < 10; of += 1) {
      answerFirst(of);
      expect(replies.recordScores(requestAt(of, 1), 'x'.repeat(90))).toMatchObject({
        failures: [{ code: 'RESULT_TOO_LARGE' }],
      });
    }
    const held = Array.from({ length: 10 }, (_, index) => answerFirst(10 + index)).filter((one) => one === undefined);
    expect(held).toHaveLength(4);
  });
});
