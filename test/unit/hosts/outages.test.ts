import { describe, expect, it } from '@jest/globals';
import { type Failure, failure, PAYLOAD_BUCKET, type TransientCode } from '../../../lambda/core/failure.ts';
import type { Result, WriteStatus } from '../../../lambda/core/record.ts';
import { createOutageWatch, scoreRecords } from '../../../lambda/hosts/records.ts';
import { enoughTime, lineRequest, memoryWriter, scoringDependencies, standardRecords } from '../../helpers/scoring.ts';
import { statuses } from '../core/scoreRecords/answers.ts';

const MISSING = failure('WRITE_FAILED', 'result queue: QueueDoesNotExist', { of: 'result queue', kind: 'refused' });
const OWN = failure('WRITE_FAILED', 'result queue: InvalidMessageContents');

function many(count: number) {
  return standardRecords(Array.from({ length: count }, (_, index) => lineRequest([index])));
}

/** A writer that does as it is told, until it is told otherwise. */
function store(refuse: (result: Result) => WriteStatus | undefined = () => MISSING) {
  const state = { refuse, offered: 0 };
  const writer = memoryWriter({
    before: (results) => {
      state.offered += results.length;
    },
    refuse: (result) => {
      const verdict = state.refuse(result);
      return verdict !== undefined && 'failed' in verdict ? verdict : undefined;
    },
  });
  const outages = createOutageWatch();
  return { state, outages, deps: scoringDependencies({ writer, outages }) };
}

describe('an outage of a result store', () => {
  it('that is known has ten records find out whether it is over, and the others go back unscored', async () => {
    const { state, deps } = store();
    await scoreRecords(many(3), deps, enoughTime());
    expect(state.offered).toBe(3);
    const outcomes = await scoreRecords(many(500), deps, enoughTime());

    expect(state.offered).toBe(3 + 10);
    expect(outcomes).toEqual(Array(500).fill({ status: 'retry', failure: MISSING }));
  });

  it('that is over when ten records find out costs none of the call', async () => {
    const { state, outages, deps } = store();
    await scoreRecords(many(3), deps, enoughTime());
    expect(outages.current()).toBe(MISSING);
    state.refuse = () => undefined;

    expect(statuses(await scoreRecords(many(50), deps, enoughTime()))).toEqual(Array(50).fill('answered'));
    expect(outages.current()).toBeUndefined();
  });

  it('is none where the store refuses one result for its own sake', async () => {
    const { outages, deps } = store(() => OWN);
    await scoreRecords(many(20), deps, enoughTime());

    expect(outages.current()).toBeUndefined();
  });
});

describe('the outage watch', () => {
  const back = (failed: Failure<TransientCode>) => ({ status: 'retry' as const, failure: failed });
  const unread = failure('PAYLOAD_UNAVAILABLE', 'AccessDenied', { of: PAYLOAD_BUCKET, kind: 'refused' });
  const ANSWERED = { status: 'answered' as const, failures: [], requests: 1 };

  it('takes one answer for proof that there is none', () => {
    const watch = createOutageWatch();
    expect(watch.saw([back(MISSING), ANSWERED])).toBe(false);
    expect(watch.current()).toBeUndefined();
  });

  it("is not led to believe in one by pointers that are denied, however many: they may be one producer's", () => {
    expect(createOutageWatch().saw(Array(1_000).fill(back(unread)))).toBe(false);
  });

  it('takes eight pointers whose objects cannot be had for proof, and no fewer', () => {
    const watch = createOutageWatch();
    const busy = back(failure('PAYLOAD_UNAVAILABLE', 'SlowDown', { of: PAYLOAD_BUCKET, kind: 'busy' }));
    expect([watch.saw([busy]), watch.saw(Array(7).fill(busy))]).toEqual([false, false]);
    expect(watch.saw(Array(8).fill(busy))).toBe(true);
  });

  it('keeps to what it knows where records fail for their own sake', () => {
    const watch = createOutageWatch();
    watch.saw([back(MISSING)]);
    expect(watch.saw([back(OWN)])).toBe(false);
    expect(watch.current()).toBe(MISSING);
  });
});
