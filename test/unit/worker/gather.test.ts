import { describe, expect, it } from '@jest/globals';
import { modelHint } from '../../../lambda/core/body.ts';
import { gather } from '../../../lambda/hosts/modelQueues.ts';

const LIMITS = { batchSize: 10, batchBytes: 1000, windowMs: 50 };

describe('gather', () => {
  it.each([
    ['nothing waits for ever', { records: 0, bytes: 0, oldestAgeMs: 999 }, LIMITS, Number.POSITIVE_INFINITY],
    ['a lone record waits for the window', { records: 1, bytes: 1, oldestAgeMs: 0 }, LIMITS, 50],
    ['it waits for what is left of the window', { records: 9, bytes: 999, oldestAgeMs: 49.5 }, LIMITS, 0.5],
    ['the window is over', { records: 1, bytes: 1, oldestAgeMs: 50 }, LIMITS, 0],
    ['a window of 0 adds nothing', { records: 1, bytes: 1, oldestAgeMs: 0 }, { ...LIMITS, windowMs: 0 }, 0],
    ['the size is reached', { records: 10, bytes: 10, oldestAgeMs: 0 }, LIMITS, 0],
    ['more came than fit', { records: 13, bytes: 10, oldestAgeMs: 0 }, LIMITS, 0],
    ['the bytes are reached', { records: 2, bytes: 1000, oldestAgeMs: 0 }, LIMITS, 0],
    ['a batch of one waits for nothing', { records: 1, bytes: 1, oldestAgeMs: 0 }, { ...LIMITS, batchSize: 1 }, 0],
  ])('%s', (_, pending, limits, expected) => {
    expect(gather(pending, limits)).toBe(expected);
  });
});

describe('modelHint', () => {
  it.each([
    ['a request that names its model', '{"id":"1","model_name":"digits","inputs":[]}', 'digits'],
    ['white space around it', '{ "model_name" : "digits" }', 'digits'],
    ['a packed message: the first name', '[{"model_name":"a"},{"model_name":"b"}]', 'a'],
    ['no name', '{"inputs":[]}', undefined],
    ['a name that is no text', '{"model_name":7}', undefined],
    ['a name that is escaped', '{"model_name":"a\\"b"}', undefined],
    ['a name behind a long tensor', `{"inputs":[${'0,'.repeat(400)}0],"model_name":"digits"}`, undefined],
    ['no JSON at all', 'digits', undefined],
  ])('%s', (_, body, expected) => {
    expect(modelHint(body)).toBe(expected);
  });
});
