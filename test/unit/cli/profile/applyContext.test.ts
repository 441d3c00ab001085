import { readFileSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { applyContext, withContext } from '../../../../cli/profile/profileCommand.ts';
import { useFolder } from '../../../helpers/folders.ts';

describe('withContext', () => {
  it.each(['  ', '    ', '\t'])('keeps the order of keys and the indentation (%j)', (indent) => {
    const text = (context: object) => `${JSON.stringify({ app: 'a', context, watch: {} }, null, indent)}\n`;
    expect(withContext(text({ batchSize: 7, models: 'm' }), { batchSize: 100, windowSeconds: 1 })).toBe(
      text({ batchSize: 100, models: 'm', windowSeconds: 1 }),
    );
  });

  it('gives the same object with the settings in its context, whatever else is in it', () => {
    const value = fc.jsonValue().filter((one) => one !== undefined);
    const object = fc.dictionary(fc.string(), value, { noNullPrototype: true });
    fc.assert(
      fc.property(object, object, fc.constantFrom(undefined, 1, 2, '\t'), (rest, context, indent) => {
        const before = { ...rest, context };
        const text = JSON.stringify(before, null, indent);
        const parsed = JSON.parse(withContext(text, { batchSize: 5, windowSeconds: 2 }));
        expect(parsed).toEqual({
          ...JSON.parse(text),
          context: { ...JSON.parse(text).context, batchSize: 5, windowSeconds: 2 },
        });
      }),
      { numRuns: 100 },
    );
  });
});

describe('applyContext', () => {
  const inFolder = useFolder();
  let path: string;
  beforeEach(() => {
    path = inFolder('cdk.json');
  });

  it.each([
    ['{"context":{"compute":"lambda-gpu"}}', 'got compute "lambda-gpu"'],
    ['{"context":{"fifo":true,"shards":2}}', 'got fifo true, shards 2'],
    ['{"context":{"minimumPollers":2,"maximumPollers":4}}', 'got minimumPollers, maximumPollers'],
    ['[]', 'expected an object with a context'],
    ['{"context":[]}', 'expected an object with a context'],
    ['{"context":null}', 'expected an object with a context'],
    ['{context}', 'to be JSON, it is not'],
  ])('refuses %s, and leaves the file as it is', async (text, message) => {
    writeFileSync(path, text);
    await expect(applyContext(path, { batchSize: 1 })).rejects.toThrow(message);
    expect(readFileSync(path, 'utf8')).toBe(text);
  });
});
