import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { scoreRecords } from '../../../lambda/hosts/records.ts';
import { whatCanHappen } from '../../helpers/manualClock.ts';
import { enoughTime, lineRequest, scoringDependencies, standardRecords } from '../../helpers/scoring.ts';
import { answerTo, statuses } from '../core/scoreRecords/answers.ts';

const NEVER = new Promise<never>(() => {});
const POINTER = ['software.amazon.payloadoffloading.PayloadS3Pointer', { s3BucketName: 'b', s3Key: 'k' }];
afterEach(() => void jest.useRealTimers());

describe('one slow thing', () => {
  it('of three hundred payloads that never come: neighbours behind them are scored meanwhile', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
    const deps = scoringDependencies({ payloads: { read: () => NEVER } });
    const deadline = new AbortController();
    const records = standardRecords([...new Array(300).fill(POINTER), lineRequest([1])]);
    const scoring = scoreRecords(records, deps, { ...enoughTime(), signal: deadline.signal });
    for (let step = 0; step < 10; step++) {
      await whatCanHappen();
      await jest.advanceTimersByTimeAsync(100);
    }
    expect(answerTo(deps.writer, 300)).toEqual([3]);
    deadline.abort();
    await jest.advanceTimersByTimeAsync(1_000);
    expect(statuses(await scoring)).toEqual([...Array(300).fill('DEADLINE'), 'answered']);
  });
});
