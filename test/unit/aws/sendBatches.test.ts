import { describe, expect, it } from '@jest/globals';
import { packBatches, pauseMs, type RetryOptions, sendBatches } from '../../../lambda/aws/sendBatches.ts';
import { writeToEvery } from '../../../lambda/aws/storeEntries.ts';
import { type Failure, failure } from '../../../lambda/core/failure.ts';
import type { Result, WriteStatus } from '../../../lambda/core/record.ts';
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
const AT_ONCE: RetryOptions = { random: () => 0 };
const WRITTEN: WriteStatus = { written: true };
/** More than a function takes as arguments: what is spread into a call throws. */
const VERY_MANY = 300_000;

describe('packing', () => {
  it.each<[string, number[], number[][]]>([
    ['nothing', [], []],
    ['three entries at most', [0, 0, 0, 0], [[0, 0, 0], [0]]],
    ['up to the very last byte', [90, 10, 1, 99, 100], [[90, 10], [1, 99], [100]]],
    ['from the first entry of each', [50, 51, 49, 1, 100], [[50], [51, 49], [1], [100]]],
    ['what is too large alone', [1, 101, 1], [[1], [101], [1]]],
  ])('fills batch requests in order: %s', (_, bytes, expected) => {
    const batches = packBatches(
      bytes.map((size) => ({ bytes: size })),
      3,
      100,
    );
    expect(batches.map((batch) => batch.map((entry) => entry.bytes))).toEqual(expected);
  });
});

describe('retrying', () => {
  it('pauses for up to 100 ms before the second attempt, twice as long before each further one, 5 s at most', () => {
    const attempts = [2, 3, 4, 7, 8, 200];
    expect(attempts.map((attempt) => pauseMs(attempt, { random: () => 1 }))).toEqual([100, 200, 400, 3200, 5000, 5000]);
    expect(pauseMs(4, { random: () => 0.25 })).toBe(100);
  });
});

describe('a delivery', () => {
  it('takes more entries than a function takes arguments, even if the store refuses all of them once', async () => {
    const entries = Array.from({ length: VERY_MANY }, (_, index) => index);
    let attempts = 0;
    const attempt = async (left: readonly number[]) => {
      attempts += 1;
      return attempts === 1 ? left.map((entry) => ({ entry, reason: 'busy', again: true })) : [];
    };

    const pack = (all: readonly number[]) => [all];
    const statuses = await sendBatches(entries, { store: 'any', pack, attempt, signal: NEVER, retry: AT_ONCE });

    expect([attempts, statuses.filter((status) => 'written' in status).length]).toEqual([2, VERY_MANY]);
  });

  it('says in the end what the store said before, not that the last attempt was aborted', async () => {
    const aborting = new AbortController();
    const refusal = (reason: string) => [{ entry: 'a', reason, again: true }];
    const answers = [
      async () => refusal('busy'),
      async () => {
        aborting.abort();
        return refusal('aborted');
      },
    ];
    const attempt = () => answers.shift()?.() ?? Promise.resolve([]);

    const statuses = await sendBatches(['a'], { store: 'any', attempt, signal: aborting.signal, retry: AT_ONCE });

    expect(statuses).toMatchObject([{ code: 'WRITE_FAILED', message: 'any: busy' }]);
  });
});

describe('writing to every store', () => {
  const BUSY = failure('WRITE_FAILED', 'the store is busy', { of: 'a store', kind: 'busy' });
  const DOWN = failure('WRITE_FAILED', 'this result was refused');
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

  it('puts every result into each, at once', async () => {
    const bothThere = Promise.withResolvers<void>();
    let there = 0;
    const before = async () => {
      if (++there === 2) bothThere.resolve();
      await bothThere.promise;
    };
    const stores = [memoryWriter({ before }), memoryWriter({ before })];

    expect(await writeToEvery(stores).write([A, B], NEVER)).toEqual([WRITTEN, WRITTEN]);
    expect(stores.map(({ written }) => written)).toEqual([
      [A, B],
      [A, B],
    ]);
  });

  it('calls a result written when each took it', async () => {
    const stores = [memoryWriter(), refusing({ a: DOWN }), refusing({ b: TOO_LARGE })];

    expect(await writeToEvery(stores).write([A, B, C], NEVER)).toEqual([DOWN, TOO_LARGE, WRITTEN]);
  });

  it.each([
    [
      'first',
      [
        { a: TOO_LARGE, b: BUSY },
        { a: BUSY, b: DOWN },
      ],
    ],
    [
      'last',
      [
        { a: BUSY, b: DOWN },
        { a: TOO_LARGE, b: BUSY },
      ],
    ],
  ])(
    'says what a retry would meet again, then what stands for all results, be it the %s store’s',
    async (_, stores) => {
      expect(await writeToEvery(stores.map(refusing)).write([A, B], NEVER)).toEqual([TOO_LARGE, BUSY]);
    },
  );

  it('puts a result into none that one of them can never hold', async () => {
    const small = {
      ...memoryWriter(),
      refuses: ({ messageId }: Result) => (messageId === 'b' ? TOO_LARGE : undefined),
    };
    const stores = [memoryWriter(), small];

    expect(await writeToEvery(stores).write([A, B, C], NEVER)).toEqual([WRITTEN, TOO_LARGE, WRITTEN]);
    expect(stores.map(({ written }) => written)).toEqual([
      [A, C],
      [A, C],
    ]);
  });

  it('writes as one what each of them writes as one', () => {
    const [three, five, one] = [memoryWriter({ asOne: 3 }), memoryWriter({ asOne: 5 }), memoryWriter()];
    expect(writeToEvery([three, five]).writtenAsOne?.([])).toBe(3);
    expect(writeToEvery([three, one]).writtenAsOne?.([])).toBe(1);
  });

  it('needs a store', () => {
    expect(() => writeToEvery([])).toThrow('expected at least one store for results, got none');
  });

  const records = () => standardRecords([lineRequest([1]), lineRequest([2])]);
  const first = messageIdOf(0);
  const codeOf = (document: unknown) => (document as { code?: string }).code;

  it('answers with an error in every store what one can never take', async () => {
    const isScore = ({ messageId, body }: Result) => messageId === first && !body.includes('"code"');
    const stores = [memoryWriter(), memoryWriter({ refuse: (result) => (isScore(result) ? TOO_LARGE : undefined) })];

    const outcomes = await scoreRecords(records(), scoringDependencies({ writer: writeToEvery(stores) }), enoughTime());

    expect(outcomes.map(({ status }) => status)).toEqual(['answered', 'answered']);
    expect(stores.map((store) => codeOf(store.documentsOf(first).at(-1)))).toEqual(Array(2).fill('RESULT_TOO_LARGE'));
  });

  it('hands back what one store can never take while another cannot even take the error', async () => {
    const writer = writeToEvery([refusing({ [first]: DOWN }), refusing({ [first]: TOO_LARGE })]);

    const outcomes = await scoreRecords(records(), scoringDependencies({ writer }), enoughTime());

    expect(outcomes.map(({ status }) => status)).toEqual(['retry', 'answered']);
  });
});
