import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { type Model, RunAbandonedError } from '../../../lambda/core/model.ts';
import type { MessageRecord } from '../../../lambda/core/record.ts';
import { scoreRecords } from '../../../lambda/hosts/records.ts';
import { whatCanHappen } from '../../helpers/manualClock.ts';
import {
  enoughTime,
  fifoRecords,
  lineModel,
  lineRequest,
  repositoryOf,
  scoringDependencies,
  standardRecords,
} from '../../helpers/scoring.ts';
import { answerTo, statuses } from '../core/scoreRecords/answers.ts';

const NEVER = new Promise<never>(() => {});
const POINTER = ['software.amazon.payloadoffloading.PayloadS3Pointer', { s3BucketName: 'b', s3Key: 'k' }];
const CULPRIT = -1;

/** A model that hangs on the culprit, until it is told to give up. */
function hangingModel(): Model {
  const line = lineModel();
  return {
    ...line,
    run(inputs, signal) {
      if (!Array.from(inputs[0]?.data as Float32Array).includes(CULPRIT)) return line.run(inputs);
      return new Promise((_, reject) => {
        signal?.addEventListener('abort', () => reject(new RunAbandonedError('left behind', 1)));
      });
    },
  };
}

function received(record: MessageRecord | undefined, receives: number): MessageRecord {
  if (record === undefined) throw new Error('expected a record');
  return { ...record, attributes: { ...record.attributes, ApproximateReceiveCount: String(receives) } };
}

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

  it('of a first-timer that hangs: redelivered records still have their turn', async () => {
    const deps = scoringDependencies({ models: repositoryOf(hangingModel()), limits: { deadlineMarginMs: 0 } });
    const [first, second, third] = standardRecords([lineRequest([CULPRIT]), lineRequest([1]), lineRequest([2])]);
    const records = [received(first, 1), received(second, 2), received(third, 4)];
    const time = { remainingMs: () => 100, signal: new AbortController().signal };
    expect(statuses(await scoreRecords(records, deps, time))).toEqual(['DEADLINE', 'answered', 'answered']);
  });

  it('of a message group that hangs: other groups are still written', async () => {
    const deps = scoringDependencies({ models: repositoryOf(hangingModel(), lineModel({ name: 'other' })) });
    const other = { ...lineRequest([1]), model_name: 'other' };
    const records = fifoRecords([
      ['a', { ...lineRequest([CULPRIT]), model_name: 'line' }],
      ['b', other],
    ]);
    const time = { remainingMs: () => 1_000, signal: new AbortController().signal };
    const limited = { ...deps, limits: { ...deps.limits, deadlineMarginMs: 0 } };
    expect(statuses(await scoreRecords(records, limited, time))).toEqual(['DEADLINE', 'answered']);
  });

  it('of an acknowledgement that is never answered: what comes after it is scored', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
    const deps = scoringDependencies({ acknowledge: () => NEVER });
    const [first, second] = standardRecords([lineRequest([1]), lineRequest([2])]);
    const scoring = scoreRecords([received(first, 1), received(second, 2)], deps, enoughTime());
    await whatCanHappen();
    await jest.advanceTimersByTimeAsync(1_000);
    expect(statuses(await scoring)).toEqual(['answered', 'answered']);
  });
});
