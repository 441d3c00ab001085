import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { decodeBody } from '../../../../lambda/core/body.ts';
import { createTemplates, type Templates } from '../../../../lambda/core/bodyTemplate.ts';
import { type DecodedRequest, isRefused } from '../../../../lambda/core/microBatch.ts';
import type { Model } from '../../../../lambda/core/model.ts';
import { lineModel, modelOf, repositoryOf, spec, UNHINDERED } from '../../../helpers/scoring.ts';
import { anyBodies } from './bodies.ts';
import { binaryBody, contentsOf, countedTemplates, DEPS, jsonBody, wide } from './contents.ts';

/** Decodes bodies one after the other. @returns how many of them a template read */
function hitsIn(bodies: readonly string[], deps = DEPS): number {
  const templates = countedTemplates('alone');
  for (const [record, body] of bodies.entries()) {
    const [short, careful] = [
      decodeBody(body, record, deps, UNHINDERED, templates),
      decodeBody(body, record, deps, UNHINDERED),
    ];
    expect({ body, ...(contentsOf(short) as object) }).toStrictEqual({ body, ...(contentsOf(careful) as object) });
  }
  return templates.hits();
}

describe('a body like one before', () => {
  it('is decoded to exactly what it is decoded to alone, or is refused for the same, whatever it is', () => {
    let tried = 0;
    let hits = 0;
    const property = fc.property(anyBodies, (bodies) => {
      tried += bodies.length;
      hits += hitsIn(bodies);
    });
    fc.assert(property, { numRuns: 3_000 });
    expect(hits / tried).toBeGreaterThan(0.1);
  });

  it.each([
    ['elements', jsonBody({ id: 'a' }), jsonBody({ id: 'order-2' }, { matrix: [-0, 1e-7], index: [9], flags: [255] })],
    ['nested elements', jsonBody({}), jsonBody({}).replace('[4]', ' [ 5 ] ')],
    ['base64', binaryBody('a', 1), binaryBody('', 2)],
  ])('is read without being parsed where it differs in its id and %s', (_, first, second) => {
    expect(hitsIn([first, second, second])).toBe(2);
  });

  it('is none where an id could stand for something else', () => {
    const parameters = { note: 'order-1' };
    expect(hitsIn([jsonBody({ id: 'order-1', parameters }), jsonBody({ id: 'order-2', parameters })])).toBe(0);
    const escaped = (note: string): string => jsonBody({ id: 'a', parameters: { note } }).replace('"a"', '"\\u0061"');
    expect(hitsIn([escaped('a'), escaped('b')])).toBe(0);
  });

  it('is no longer looked for when 64 in a row were like none', () => {
    const unlike = (index: number): string => jsonBody({ parameters: { index } });
    const late = jsonBody({ id: 'late' });
    const hitsAfter = (misses: number): number =>
      hitsIn([...Array.from({ length: misses }, (_, i) => unlike(i)), late, late]);
    expect([hitsAfter(63), hitsAfter(64)]).toEqual([1, 0]);
  });
});

describe('a template', () => {
  const template = jsonBody({ id: 'a' });
  const learnt = (model: Model): Templates => {
    const templates = createTemplates();
    const deps = { ...DEPS, models: repositoryOf(model) };
    decodeBody(template, 0, deps, UNHINDERED, templates);
    return templates;
  };

  it('is not made of a body that a transform decodes or encodes', () => {
    const encode = () => 1;
    expect(learnt({ ...wide, transform: { encode } }).read(template, 1)).toBeUndefined();
  });

  it('is made of a request of a packed message too, and reads others', () => {
    const templates = createTemplates();
    decodeBody(`[${template}]`, 0, DEPS, UNHINDERED, templates);
    expect(templates.read(jsonBody({ id: 'b' }), 7)).toMatchObject({ bodyIndex: 7, position: 0, id: 'b' });
    expect(templates.read(`[${template}]`, 1)).toBeUndefined();
  });
});

describe('a template', () => {
  const request = (fields: object): string =>
    JSON.stringify({
      id: 'a',
      inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] }],
      ...fields,
    });
  const deps = { models: repositoryOf(lineModel()), limits: DEPS.limits };

  it('is never learnt from a body that is nested deeply: learning it would overflow the stack', () => {
    let deep: object = {};
    for (let level = 0; level < 4000; level++) deep = { a: deep };
    const body = request({ parameters: deep });
    expect(isRefused(decodeBody(body, 0, deps, UNHINDERED, createTemplates()) as DecodedRequest)).toBe(false);
  });

  it('reads long base64, such as a picture of 150 KB, and refuses what the decoder refuses', () => {
    const tall = modelOf({ inputs: [spec('picture', 'UINT8', 'batch', 150_528)], outputs: [] });
    const inputs = [{ name: 'picture', datatype: 'UINT8', shape: [1, 150_528] }];
    const bodyOf = (bytes: number, fill: number): string =>
      JSON.stringify({ id: `p${fill}`, inputs, raw_input_contents: [Buffer.alloc(bytes, fill).toString('base64')] });
    const bodies = [bodyOf(150_528, 1), bodyOf(150_528, 2), bodyOf(150_527, 3), bodyOf(150_528, 4)];
    expect(hitsIn(bodies, { ...DEPS, models: repositoryOf(tall) })).toBe(2);
  });

  it('does not read other long bodies, which are outlined before they are parsed', () => {
    const templates = createTemplates();
    decodeBody(request({}), 0, deps, UNHINDERED, templates);
    const long = request({}).replace('[1]}', `[1${' '.repeat(70_000)}]}`);
    expect(templates.read(request({}), 0)).toBeDefined();
    expect(templates.read(long, 0)).toBeUndefined();
  });
});

describe('bodies whose rows are on axis 1', () => {
  const states = modelOf({
    inputs: [{ ...spec('state', 'FP32', 'batch', 2), batchAxis: 1 }, spec('index', 'UINT8', 'batch')],
    outputs: [],
  });
  const deps = { ...DEPS, models: repositoryOf(states) };
  const state = { name: 'state', datatype: 'FP32', shape: [2, 3] };
  const bodyWith = (data: unknown): string =>
    JSON.stringify({
      inputs: [
        { name: 'index', datatype: 'UINT8', shape: [3], data: [7, 8, 9] },
        { ...state, data },
      ],
    });

  it('are read as they are decoded in full, flat and nested', () => {
    const nested = JSON.parse('[[6,5,4],[3,2,1]]');
    const rowsFirst = JSON.parse('[[6,5],[4,3],[2,1]]');
    expect(hitsIn([[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1], nested, rowsFirst].map(bodyWith), deps)).toBe(2);
  });
});
