import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isKeyPrefix, requestKeys, resultKeys } from '../../../../lambda/core/places.ts';

const PARTS = ['a', 'b', 'requests', 'results', 'requests.', '-', '..', '.', ''];
const anyPath = fc
  .tuple(fc.array(fc.constantFrom(...PARTS), { maxLength: 4 }), fc.boolean())
  .map(([parts, ends]) => parts.join('/') + (ends ? '/' : ''));

describe('the prefix of a deployment', () => {
  it.each(['', 'a_b/v1.2/Fraud-1D/', 'my-requests/', `${'x'.repeat(511)}/`])('may be %j', (prefix) => {
    expect(isKeyPrefix(prefix)).toBe(true);
  });

  it.each([
    'fraud',
    '/fraud/',
    'fraud//',
    'a/../',
    'a/.b/',
    '*/',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of IAM, which a policy would replace.
    '${aws:username}/',
    'a b/',
    'fraud/\n',
    'a/requests/',
    'results/a/',
    `${'x'.repeat(512)}/`,
  ])('cannot be %j', (prefix) => {
    expect(isKeyPrefix(prefix)).toBe(false);
  });

  it('never shares a key with another: neither requests nor results', () => {
    const prefix = anyPath.filter(isKeyPrefix);
    fc.assert(
      fc.property(prefix, prefix, (one, other) => {
        const keys = [requestKeys, resultKeys].flatMap((keysOf) => [one, other].map(keysOf));
        const areas = new Set(keys);
        expect(areas.size).toBe(one === other ? 2 : 4);
        const within = [...areas].filter((area) =>
          [...areas].some((wider) => wider !== area && area.startsWith(wider)),
        );
        expect(within).toEqual([]);
      }),
      { numRuns: 2000 },
    );
  });
});
