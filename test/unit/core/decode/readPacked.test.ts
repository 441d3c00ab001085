import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type DecodeDependencies, decodeBody } from '../../../../lambda/core/body.ts';
import { createTemplates } from '../../../../lambda/core/bodyTemplate.ts';
import { lineModel, repositoryOf, UNHINDERED } from '../../../helpers/scoring.ts';
import { anyPackedBodies } from './bodies.ts';
import { binaryBody, contentsOf, countedTemplates, DATA, DEPS, jsonBody, wide } from './contents.ts';

/** Decodes bodies one after the other, and each in full. @returns how many requests templates read */
async function hitsIn(bodies: readonly string[], deps: DecodeDependencies = DEPS): Promise<number> {
  const templates = countedTemplates('packed');
  for (const [record, body] of bodies.entries()) {
    const short = contentsOf(await decodeBody(body, record, deps, UNHINDERED, templates));
    expect({ body, decoded: short }).toStrictEqual({
      body,
      decoded: contentsOf(await decodeBody(body, record, deps, UNHINDERED)),
    });
  }
  return templates.hits();
}

function packed(requests: readonly string[], between = ','): string {
  return `[${requests.join(between)}]`;
}

const ORDERS = Array.from({ length: 10 }, (_, index) => jsonBody({ id: `order-${index}` }));
const LONG = ' '.repeat(65_536);

describe('the requests of a packed body', () => {
  it('are decoded to exactly what they are decoded to in full, or are refused for the same, whatever they are', async () => {
    let hits = 0;
    const property = fc.asyncProperty(anyPackedBodies, async (bodies) => {
      hits += await hitsIn(bodies);
    });
    await fc.assert(property, { numRuns: 2_000 });
    expect(hits).toBeGreaterThan(400);
  });

  it.each([
    ['JSON', packed(ORDERS)],
    ['base64', packed(ORDERS.map((_, index) => binaryBody(`order-${index}`, index)))],
    ['JSON as Python writes it', packed(ORDERS, ', ')],
    ['JSON on a line each', `\n ${packed(ORDERS, '\r\n,\t')} \n`],
    ['JSON in a body that is outlined', packed(ORDERS) + LONG],
  ])('are read without being parsed but for the first, in %s', async (_, body) => {
    expect(await hitsIn([body])).toBe(9);
  });

  it('are read beside one that is refused, or like no other', async () => {
    const wrong = jsonBody({ id: 'wrong' }, { ...DATA, flags: [256] });
    const other = jsonBody({ id: 'other', parameters: { trace: 1 } });
    expect(await hitsIn([packed([...ORDERS, wrong, other, ...ORDERS])])).toBe(19);
  });

  it('are decoded in full where none is like another: nothing is looked for after 64 of them', async () => {
    const unlike = (index: number): string => jsonBody({ id: 'a', parameters: { index } });
    const bodies = Array.from({ length: 64 }, (_, index) => packed([unlike(index)]));
    expect(await hitsIn([...bodies, packed(ORDERS)])).toBe(0);
    expect(await hitsIn([...bodies.slice(1), packed(ORDERS)])).toBe(9);
  });

  it('are decoded in full where their elements are too long to be parsed unseen', async () => {
    const long = (spaces: number): string => ORDERS[0]?.replace('[4]', `[4${' '.repeat(spaces)}]`) ?? '';
    expect(await hitsIn([packed([...ORDERS, long(65_533)])])).toBe(10);
    expect(await hitsIn([packed([...ORDERS, long(65_534)])])).toBe(9);
  });

  it('are decoded in full where their model has to be loaded first', async () => {
    const deps = { ...DEPS, models: { ...DEPS.models, find: async () => wide } };
    expect(await hitsIn([packed(ORDERS), packed(ORDERS)], deps)).toBe(0);
  });
});

describe('what is allowed in a body', () => {
  const codeOf = async (body: string, deps = DEPS): Promise<string | undefined> => {
    await hitsIn([packed(ORDERS), body], deps);
    const decoded = await decodeBody(body, 0, deps, UNHINDERED, createTemplates());
    return (contentsOf(decoded) as { failure?: { code: string } }).failure?.code;
  };

  it('is as many requests as the limit says', async () => {
    const deps = { ...DEPS, limits: { ...DEPS.limits, maxRequestsPerMessage: 10 } };
    expect([
      await codeOf(packed(ORDERS), deps),
      await codeOf(packed([...ORDERS, jsonBody({ id: 'b' })]), deps),
    ]).toEqual([undefined, 'TOO_MANY_REQUESTS']);
    expect(await codeOf(packed([...ORDERS, jsonBody({ id: 'b' })]) + LONG, deps)).toBe('TOO_MANY_REQUESTS');
  });

  const deep = (levels: number): string => {
    let parameters: object = {};
    for (let level = 1; level < levels; level++) parameters = { n: parameters };
    return jsonBody({ id: 'first', parameters });
  };

  it.each([
    ['98 levels below the request', 98, undefined],
    ['99 levels below the request', 99, 'INVALID_REQUEST'],
  ])('are, in a long one, %s: %j', async (_, levels, expected) => {
    const requests = [deep(levels), deep(levels).replace('first', 'second')];
    expect(await codeOf(packed(requests) + LONG)).toBe(expected);
    expect(await hitsIn([deep(levels), deep(levels), packed(requests) + LONG])).toBe(expected === undefined ? 2 : 0);
    expect(await codeOf(packed(requests))).toBeUndefined();
  });

  it.each([
    ['10,000 keys in an object', 10_000, undefined],
    ['10,001 keys in an object', 10_001, 'INVALID_REQUEST'],
  ])('are, in a long one, %s: %j', async (_, keys, expected) => {
    const members = Array.from({ length: keys }, () => '"":1');
    const request = (id: string): string => jsonBody({ id }).replace(/}$/, `,"parameters":{${members.join(',')}}}`);
    expect(await codeOf(packed([request('a'), request('b')]))).toBe(expected);
    expect(await codeOf(packed([request('a')]))).toBeUndefined();
    const bodies = [request('a'), request('b'), packed([request('a'), request('b')])];
    expect(await hitsIn(bodies)).toBe(expected === undefined ? 2 : 0);
  });

  it('are so many arrays and objects, those of requests that templates read among them', async () => {
    const deps = { models: repositoryOf(lineModel()), limits: DEPS.limits };
    const request = (id: string, max: number): string =>
      JSON.stringify({
        id,
        parameters: { a: Array.from({ length: max }, () => []) },
        inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] }],
      });
    const containers = (arrays: number): number => arrays + 7;
    const of = (requests: number, arrays: number): string =>
      packed(Array.from({ length: requests }, (_, index) => request(`order-${index}`, arrays)));
    const fits = Math.floor(199_999 / containers(20_000));
    expect([await codeOf(of(fits, 20_000), deps), await codeOf(of(fits + 1, 20_000), deps)]).toEqual([
      undefined,
      'INVALID_REQUEST',
    ]);
  });
});
