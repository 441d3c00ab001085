import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isBase64 } from '../../../../lambda/core/tensor.ts';

/** By its definition: both alphabets, all of its padding or none. */
function isBase64ByDefinition(text: string): boolean {
  const characters = text.replace(/={1,2}$/, '');
  const length = characters.length % 4 !== 1 && (characters === text || text.length % 4 === 0);
  return length && /^[\w+/-]*$/.test(characters);
}

/** Some are longer than what is looked at in one go. */
const bytes = fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.uint8Array({ minLength: 49_100, maxLength: 49_200 }));
const encoded = fc
  .tuple(bytes, fc.constantFrom('base64', 'base64url'))
  .map(([array, alphabet]) => Buffer.from(array).toString(alphabet as 'base64'));
const odd = fc.oneof(
  fc.constantFrom('=', '==', ' ', '\n', '\t', '$', 'é', '€', 'Ł', '💾', '\0', '', 'A', '-'),
  fc.string(),
);

describe('a text', () => {
  it('is base64 as its definition says, whatever stands in it', () => {
    fc.assert(
      fc.property(encoded, fc.nat(), fc.nat(3), odd, (text, at, removed, put) => {
        const place = at % (text.length + 1);
        const changed = text.slice(0, place) + put + text.slice(place + removed);
        expect([isBase64(text), isBase64(changed)]).toEqual([true, isBase64ByDefinition(changed)]);
      }),
      { numRuns: 500 },
    );
  });

  it('is none with padding anywhere but at its end, though a part of it ends there', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 65_520, max: 65_552 }),
        fc.constantFrom('=', '=='),
        fc.nat(3),
        (at, padding, more) => {
          const text = `${'A'.repeat(at)}${padding}${'A'.repeat(4 - padding.length + 4 * more)}`;
          expect(isBase64(text)).toBe(false);
        },
      ),
    );
  });
});
