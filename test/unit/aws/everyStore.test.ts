import { describe, expect, it } from '@jest/globals';
import { writeToEvery } from '../../../lambda/aws/sendBatches.ts';
import { type Failure, failure } from '../../../lambda/core/failure.ts';
import type { Result, ResultWriter } from '../../../lambda/core/record.ts';

import { scoreRecords } from '../../../lambda/hosts/records.ts';
import {
  enoughTime,
  lineRequest,
  memoryWriter,
  messageIdOf,
  scoringDependencies,
  standardRecords,
} from '../../helpers/scoring.ts';

const NEVER = new AbortController().signal;
const WRITTEN = { written: true };
const DOWN = failure('WRITE_FAILED', 'the store is down');
const ALSO_DOWN = failure('WRITE_FAILED', 'this store is down too');
const TOO_LARGE = failure('RESULT_TOO_LARGE', 'expected less');
const [A, B, C] = ['a', 'b', 'c'].map((messageId) => ({ messageId, body: '{}', messageGroupId: undefined })) as [
  Result,
  Result,
  Result,
];

/** A store that refuses the results of these message IDs. */
function refusing(refusals: Readonly<Record<string, Failure>>) {
  return memoryWriter({ refuse: ({ messageId }) => refusals[messageId] });
}

describe('writing to every store', () => {
  it('puts every result into each', async () => {
    const stores = [memoryWriter(), memoryWriter()];

    expect(await writeToEvery(stores).write([A, B], NEVER)).toEqual([WRITTEN, WRITTEN]);
    expect(stores.map(({ written }) => written)).toEqual([
      [A, B],
      [A, B],
    ]);
  });

  it('writes to all at once, under the same deadline', async () => {
    const { signal } = new AbortController();
    const bothThere = Promise.withResolvers<void>();
    let there = 0;
    const before = async (_: unknown, given: AbortSignal) => {
      expect(given).toBe(signal);
      if (++there === 2) bothThere.resolve();
      await bothThere.promise;
    };

    expect(await writeToEvery([memoryWriter({ before }), memoryWriter({ before })]).write([A], signal)).toEqual([
      WRITTEN,
    ]);
  });

  it('calls a result written when each took it, and says what the first that did not says', async () => {
    const stores = [memoryWriter(), refusing({ a: DOWN, b: DOWN }), refusing({ b: ALSO_DOWN, c: ALSO_DOWN })];

    expect(await writeToEvery(stores).write([A, B, C], NEVER)).toEqual([DOWN, DOWN, ALSO_DOWN]);
  });

  it.each([
    ['first', [{ a: TOO_LARGE }, { a: DOWN }]],
    ['last', [{ a: DOWN }, { a: TOO_LARGE }]],
  ])('says that a result is too large, which a retry would meet again, when the %s store does', async (_, stores) => {
    expect(await writeToEvery(stores.map(refusing)).write([A], NEVER)).toEqual([TOO_LARGE]);
  });

  it.each<[string, ResultWriter['write'], string]>([
    ['throws', () => Promise.reject(new TypeError('a bug')), 'result store 1 threw: TypeError: a bug'],
    [
      'throws before it begins',
      () => {
        throw new TypeError('a bug');
      },
      'result store 1 threw: TypeError: a bug',
    ],
    ['answers for too few', async () => [{ written: true }], 'result store 1 threw: Error: expected 2 verdicts, got 1'],
    [
      'answers for too many',
      async () => Array(3).fill(WRITTEN),
      'result store 1 threw: Error: expected 2 verdicts, got 3',
    ],
  ])('fails what a store that %s was given, and hides no verdict of the others', async (_, write, message) => {
    const stores = [refusing({ a: TOO_LARGE }), { write }, memoryWriter()];

    expect(await writeToEvery(stores).write([A, B], NEVER)).toEqual([TOO_LARGE, failure('WRITE_FAILED', message)]);
    expect(stores[2]).toMatchObject({ written: [A, B] });
  });

  it('writes as one what each of them writes as one', () => {
    const [three, five, one] = [memoryWriter({ asOne: 3 }), memoryWriter({ asOne: 5 }), memoryWriter()];
    expect(writeToEvery([three, five]).writtenAsOne?.([])).toBe(3);
    expect(writeToEvery([three, one]).writtenAsOne?.([])).toBe(1);
  });

  it('needs a store', () => {
    expect(() => writeToEvery([])).toThrow('expected at least one store for results, got none');
  });
});

describe('scoring for several stores', () => {
  const records = () => standardRecords([lineRequest([1]), lineRequest([2])]);
  const [first, second] = [messageIdOf(0), messageIdOf(1)];
  const codeOf = (document: unknown) => (document as { code?: string }).code;

  it('hands back what one store could not take now, with no error answer anywhere', async () => {
    const up = memoryWriter();
    const writer = writeToEvery([up, refusing({ [first]: DOWN })]);

    const outcomes = await scoreRecords(records(), scoringDependencies({ writer }), enoughTime());

    expect(outcomes.map(({ status }) => status)).toEqual(['retry', 'answered']);
    expect(up.documentsOf(first).map(codeOf)).toEqual([undefined]);
  });

  it('answers with an error in every store what one can never take', async () => {
    const isScore = ({ messageId, body }: Result) => messageId === first && !body.includes('"code"');
    const stores = [memoryWriter(), memoryWriter({ refuse: (result) => (isScore(result) ? TOO_LARGE : undefined) })];

    const outcomes = await scoreRecords(records(), scoringDependencies({ writer: writeToEvery(stores) }), enoughTime());

    expect(outcomes.map(({ status }) => status)).toEqual(['answered', 'answered']);
    expect(stores.map((store) => codeOf(store.documentsOf(first).at(-1)))).toEqual(Array(2).fill('RESULT_TOO_LARGE'));
    expect(stores.map((store) => store.documentsOf(second).map(codeOf))).toEqual([[undefined], [undefined]]);
  });

  it('hands back what one store can never take while another cannot even take the error', async () => {
    const writer = writeToEvery([refusing({ [first]: DOWN }), refusing({ [first]: TOO_LARGE })]);

    const outcomes = await scoreRecords(records(), scoringDependencies({ writer }), enoughTime());

    expect(outcomes.map(({ status }) => status)).toEqual(['retry', 'answered']);
  });
});
