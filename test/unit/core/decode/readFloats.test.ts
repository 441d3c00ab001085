import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { readFloats } from '../../../../lambda/core/floatText.ts';
import { bitsOf } from '../arbitraries.ts';

const plain = fc
  .tuple(fc.boolean(), fc.integer({ min: 0, max: 10 ** 9 }), fc.option(fc.integer({ min: 0, max: 999_999 })))
  .map(([isNegative, whole, part]) => `${isNegative ? '-' : ''}${whole}${part === null ? '' : `.${part}`}`);
const any = fc.oneof(
  { weight: 6, arbitrary: plain },
  { weight: 2, arbitrary: fc.double().map((value) => JSON.stringify(value)) },
  fc.float().map((value) => JSON.stringify(value)),
  fc.constantFrom(...['-0', '0.0', '-0.000', '00', '01', '-', '1.', '.5', '+1', '1e3', '1.5E-2', ' 1', '1 ', '  1']),
  fc.constantFrom(...['9007199254740991', '9007199254740992', '9007199254740993', '0.00000000000000000000001', '']),
  fc.constantFrom(...['[1]', '1,2', '"1"', 'null', '\u0661', '1]', 'NaN']),
);

/** What `JSON.parse` makes of the array that begins at `from`, and where it ends; undefined where it is none. */
function parsed(text: string, from: number): { data: Float64Array; end: number } | undefined {
  const end = text.indexOf(']', from) + 1;
  try {
    const value: unknown = JSON.parse(text.slice(from, end));
    return { data: Float64Array.from(value as number[]), end };
  } catch {
    return undefined;
  }
}

describe('an array of floats', () => {
  it('is read to the same doubles as by JSON.parse, whatever it holds, or is not read', () => {
    let read = 0;
    const property = fc.property(
      fc.array(any, { minLength: 1, maxLength: 6 }),
      fc.constantFrom('', '{"data":'),
      (elements, before) => {
        const text = `${before}[${elements.join(',')}]}`;
        const target = new Float64Array(elements.length);
        const end = readFloats(text, before.length, target);
        if (end < 0) return;
        read += 1;
        const expected = parsed(text, before.length);
        expect({ text, end, data: bitsOf(target) }).toEqual({
          text,
          end: expected?.end,
          data: bitsOf(expected?.data as Float64Array),
        });
      },
    );
    fc.assert(property, { numRuns: 20_000 });
    expect(read).toBeGreaterThan(2_000);
  });

  it('is read into 32 bits as JSON.parse and a Float32Array have it', () => {
    const text = '[16777217,0.1,3.4028234,-2.5]';
    const target = new Float32Array(4);
    readFloats(text, 0, target);
    expect(bitsOf(target)).toEqual(bitsOf(Float32Array.from(JSON.parse(text))));
  });
});
