import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Body } from '../../../lambda/core/microBatch.ts';
import { createFrameReader, encodeFrame, type ToScorer } from '../../../lambda/scorer/frames.ts';
import { dataOf, EVERY_DATATYPE } from '../core/arbitraries.ts';

const anyBody: fc.Arbitrary<Body> = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(...EVERY_DATATYPE).chain((datatype) =>
    fc
      .nat(9)
      .chain((length) => dataOf(datatype, length))
      .map((data): Body => ({ inputs: [{ name: 'x', datatype, shape: [data.length], data }], reply: 'tensors' })),
  ),
);

describe('frames', () => {
  it('arrive as they were sent, however their bytes are cut', () => {
    const frames = fc.array(fc.array(anyBody).map((bodies): ToScorer => ({ is: 'bodies', call: 1, bodies })));
    fc.assert(
      fc.property(frames, fc.array(fc.integer({ min: 1, max: 99 }), { minLength: 1 }), (sent, cuts) => {
        const bytes = Buffer.concat(sent.map((frame) => encodeFrame(frame)));
        const taken: ToScorer[] = [];
        const read = createFrameReader<ToScorer>((frame) => void taken.push(frame));
        for (let [at, cut] = [0, 0]; at < bytes.length; cut++) {
          const end = at + (cuts[cut % cuts.length] as number);
          read(bytes.subarray(at, end));
          at = end;
        }
        expect(taken).toEqual(sent);
      }),
    );
  });
});
