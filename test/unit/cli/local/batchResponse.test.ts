import { describe, expect, it } from '@jest/globals';
import { failedMessageIds } from '../../../../cli/local/localMapping.ts';

const SENT = new Set(['a', 'b', 'c']);

describe('failedMessageIds', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['an empty object', {}],
    ['null failures', { batchItemFailures: null }],
    ['no failures', { batchItemFailures: [] }],
  ])('takes %s as success of all', (_, response) => {
    expect(failedMessageIds(response, SENT)).toEqual(new Set());
  });

  it('gives the listed IDs', () => {
    const response = { batchItemFailures: [{ itemIdentifier: 'c' }, { itemIdentifier: 'a' }, { itemIdentifier: 'c' }] };

    expect(failedMessageIds(response, SENT)).toEqual(new Set(['a', 'c']));
  });

  it.each([
    ['a string', 'ok', 'got a value of type string'],
    ['an array', [], 'got an array'],
    ['failures that are no array', { batchItemFailures: 'a' }, 'batchItemFailures: expected an array'],
    ['an empty identifier', { batchItemFailures: [{ itemIdentifier: '' }] }, '[0].itemIdentifier: expected'],
    ['a null identifier', { batchItemFailures: [{ itemIdentifier: null }] }, 'got null'],
    ['a wrong key', { batchItemFailures: [{ itemIdentifier: 'a' }, { id: 'b' }] }, '[1].itemIdentifier: expected'],
    ['an unknown identifier', { batchItemFailures: [{ itemIdentifier: 'z' }] }, 'got "z"'],
    ['what JSON cannot hold', { batchItemFailures: 1n }, 'BigInt'],
  ])('refuses %s', (_, response, message) => {
    expect(() => failedMessageIds(response, SENT)).toThrow(message);
  });
});
