import { describe, expect, it } from '@jest/globals';
import { scoreRecords } from '../../../lambda/hosts/records.ts';
import {
  enoughTime,
  lineRequest,
  memoryWriter,
  messageIdOf,
  scoringDependencies,
  standardRecord,
  standardRecords,
} from '../../helpers/scoring.ts';
import { statuses } from '../core/scoreRecords/answers.ts';

const RECORDS = standardRecords([lineRequest([1]), lineRequest([2]), lineRequest([3])]);

describe('a write', () => {
  it('gives the writer the signal that ends its retries', async () => {
    const given = new Set<AbortSignal>();
    const before = (_: unknown, signal: AbortSignal) => void given.add(signal);
    const time = enoughTime();
    await scoreRecords(RECORDS, scoringDependencies({ writer: memoryWriter({ before }) }), time);
    expect([...given]).toEqual([time.signal]);
  });
});

describe('a writer that breaks its word', () => {
  it('has its records handed back when it throws, and the observer told', async () => {
    const error = new Error('the network is gone');
    const before = () => {
      throw error;
    };
    const deps = scoringDependencies({ writer: memoryWriter({ before }) });

    const outcomes = await scoreRecords(RECORDS, deps, enoughTime());

    expect(statuses(outcomes)).toEqual(['WRITE_FAILED', 'WRITE_FAILED', 'WRITE_FAILED']);
    expect(deps.problems).toEqual([error]);
  });
});

describe('the event', () => {
  it('may be empty', async () => {
    const deps = scoringDependencies();
    expect(await scoreRecords([], deps, enoughTime())).toEqual([]);
    expect([deps.writer.written, deps.problems]).toEqual([[], []]);
  });

  it('may hold a message twice: each record gets its outcome and its result', async () => {
    const twice = [standardRecord(lineRequest([4])), standardRecord(lineRequest([4]))];
    const deps = scoringDependencies();

    expect(statuses(await scoreRecords(twice, deps, enoughTime()))).toEqual(['answered', 'answered']);
    const [first, second] = deps.writer.documentsOf(messageIdOf(0));
    expect(first).toMatchObject({ outputs: [{ data: [9] }] });
    expect(second).toEqual(first);
  });
});
