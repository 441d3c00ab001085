import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Failure, failure } from '../../../lambda/core/failure.ts';
import { ModelUnavailableError } from '../../../lambda/core/model.ts';
import { scoreRecords } from '../../../lambda/hosts/records.ts';
import { closedGate, whatCanHappen } from '../../helpers/manualClock.ts';
import {
  enoughTime,
  fifoRecords,
  lineModel,
  lineRequest,
  type MemoryWriterOptions,
  memoryWriter,
  messageIdOf,
  repositoryOf,
  scoringDependencies,
  standardRecords,
} from '../../helpers/scoring.ts';
import { answerTo, statuses, writtenRecords } from '../core/scoreRecords/answers.ts';

const REFUSED = failure('WRITE_FAILED', 'result queue: InternalError');

/** Scores one record per entry `group`, `group!` (no JSON) or `group?` (its model cannot be run). */
async function score(entries: readonly string[], options: MemoryWriterOptions = {}) {
  const before = () => {
    throw new ModelUnavailableError('its thread died');
  };
  const models = repositoryOf(lineModel(), lineModel({ name: 'gone', before }));
  const deps = scoringDependencies({ models, writer: memoryWriter(options) });
  const bodyOf = (entry: string) =>
    entry.endsWith('!') ? 'no JSON' : lineRequest([1], { model_name: entry.endsWith('?') ? 'gone' : 'line' });
  const records = fifoRecords(entries.map((entry) => [entry.charAt(0), bodyOf(entry)]));
  const outcomes = await scoreRecords(records, deps, enoughTime());
  return { deps, outcomes, statuses: statuses(outcomes), written: writtenRecords(deps.writer) };
}

function refuseRecord(index: number, refusal: Failure = REFUSED) {
  return ({ messageId }: { messageId: string }) => (messageId === messageIdOf(index) ? refusal : undefined);
}

describe('of a message group', () => {
  it('a result that is too large is answered with an error, and holds nobody up', async () => {
    const tooLarge = failure('RESULT_TOO_LARGE', 'expected at most 10 bytes, got 100');
    const refuse = ({ messageId, body }: { messageId: string; body: string }) =>
      messageId === messageIdOf(0) && body.includes('outputs') ? tooLarge : undefined;
    const { deps, written } = await score(['a', 'a'], { refuse });
    expect(written).toEqual([0, 1]);
    expect(answerTo(deps.writer, 0)).toBe('RESULT_TOO_LARGE');
  });

  it('the next result is not even offered before the one before it is taken', async () => {
    const gate = closedGate();
    const offered: string[][] = [];
    const before = (results: readonly { messageId: string }[]) => {
      offered.push(results.map(({ messageId }) => messageId));
      return gate.opened;
    };
    const scoring = score(['a', 'b', 'a', 'b'], { before });

    await whatCanHappen();
    expect(offered).toEqual([[messageIdOf(0), messageIdOf(1)]]);
    gate.open();
    expect((await scoring).written).toEqual([0, 1, 2, 3]);
  });

  it('results that their store takes all or not at all are offered together, group beside group', async () => {
    const offered: string[][] = [];
    const before = (results: readonly { messageId: string }[]) =>
      void offered.push(results.map(({ messageId }) => messageId));
    const { written } = await score(['a', 'b', 'a', 'a', 'a?', 'a', 'b'], { asOne: 2, before });
    expect(offered).toEqual([[0, 2, 1, 6].map(messageIdOf), [3].map(messageIdOf)]);
    expect(written).toEqual([0, 2, 1, 6, 3]);
  });

  it('nothing is offered after such results are refused', async () => {
    const { written, ...told } = await score(['a', 'a', 'a', 'b'], {
      asOne: 2,
      refuse: ({ messageId }) => ([0, 1].map(messageIdOf).includes(messageId) ? REFUSED : undefined),
    });
    expect(told.statuses).toEqual(['WRITE_FAILED', 'WRITE_FAILED', 'BEHIND_RETRY', 'answered']);
    expect(written).toEqual([3]);
  });

  it('results are written in order even when the later ones are ready first', async () => {
    const gate = closedGate();
    const models = repositoryOf(
      lineModel({ maxBatchRows: 1, before: ([x]) => (x?.data[0] === 0 ? gate.opened : undefined) }),
    );
    const deps = scoringDependencies({ models });
    const records = fifoRecords([0, 1, 2].map((value) => ['a', lineRequest([value])]));

    const scoring = scoreRecords(records, deps, enoughTime());
    await whatCanHappen();
    expect(deps.writer.written).toEqual([]);
    gate.open();
    await scoring;

    expect(writtenRecords(deps.writer)).toEqual([0, 1, 2]);
  });

  it('results that fill the memory are written before all are there, and go back where they wait for a slow one', async () => {
    const gate = closedGate();
    const models = repositoryOf(lineModel(), lineModel({ name: 'slow', before: () => gate.opened }));
    const deps = scoringDependencies({ models, limits: { maxAnswerCharacters: 500 } });
    const quick = Array.from({ length: 40 }, () => lineRequest([1]));
    const slow = lineRequest([1], { model_name: 'slow' });
    const records = fifoRecords([
      ...quick.map((request) => ['a', request] as const),
      ...[slow, ...quick].map((request) => ['b', request] as const),
    ]);

    const scoring = scoreRecords(records, deps, enoughTime());
    for (let turn = 0; turn < 20; turn++) await whatCanHappen();
    const quickOnes = Array.from(quick.keys());
    expect(writtenRecords(deps.writer)).toEqual(quickOnes);
    gate.open();
    const told = statuses(await scoring);

    const kept = told.lastIndexOf('answered') - 40;
    expect(told.slice(0, 41 + kept)).toEqual(Array(41 + kept).fill('answered'));
    expect(told.slice(41 + kept).every((status) => status !== 'answered')).toBe(true);
    expect(told).toContain('OUT_OF_MEMORY');
    expect(writtenRecords(deps.writer)).toEqual([
      ...quickOnes,
      ...Array.from({ length: kept + 1 }, (_, at) => 40 + at),
    ]);
    const behind = deps.writer.written.slice(41).map(({ body }) => body.length);
    expect(behind.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(2_000);
    expect(behind.length).toBeGreaterThan(5);
  });

  it('what is written and acknowledged is always its first records, in order', async () => {
    const entry = fc
      .tuple(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('', '', '!', '?'))
      .map((two) => two.join(''));
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 10 }), fc.nat({ max: 10 }), async (entries, refused) => {
        const { written, ...told } = await score(entries, { refuse: refuseRecord(refused) });
        for (const group of ['a', 'b', 'c']) {
          const mine = entries.flatMap((one, index) => (one.startsWith(group) ? [index] : []));
          const firstRetry = mine.findIndex((index) => entries[index]?.endsWith('?') || index === refused);
          const kept = firstRetry < 0 ? mine : mine.slice(0, firstRetry);
          expect(written.filter((index) => mine.includes(index))).toEqual(kept);
          expect(mine.filter((index) => told.statuses[index] === 'answered')).toEqual(kept);
        }
      }),
      { numRuns: 100 },
    );
  });

  it('results carry the group, so that FIFO in is FIFO out', async () => {
    const { deps } = await score(['a', 'b!']);
    expect(deps.writer.written.map(({ messageGroupId }) => messageGroupId)).toEqual(['a', 'b']);
  });
});

describe('a standard queue', () => {
  it('has no order: a message group there holds nobody up and is not passed on', async () => {
    const deps = scoringDependencies({ writer: memoryWriter({ refuse: refuseRecord(0) }) });
    const records = standardRecords([lineRequest([1]), lineRequest([2])]).map((record) => ({
      ...record,
      attributes: { ...record.attributes, MessageGroupId: 'tenant-1' },
    }));

    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(['WRITE_FAILED', 'answered']);
    expect(deps.writer.written.map(({ messageGroupId }) => messageGroupId)).toEqual([undefined]);
  });
});
