import { describe, expect, it } from '@jest/globals';
import { type Delivered, dollarsPerMillion, type Event, sqsDollars } from '../../../bench/measure/hops.ts';

const NOTHING: Delivered = { calls: 0, messages: 0, chunks: 0, writeUnits: 0, readUnits: 0, objects: 0, errors: 0 };
const KIB = 1024;

/** A hundred requests of 1 KiB, each a message of its own. */
function event(delivered: Partial<Delivered>, parts: Partial<Event> = {}): Event {
  return {
    requests: 100,
    messageBytes: Array(100).fill(KIB),
    delivered: { ...NOTHING, ...delivered },
    microsecondsPerRequest: 100,
    ...parts,
  };
}

const TO_QUEUE = { messages: 100, chunks: 10 };

describe('the dollars of a million requests', () => {
  it('are those of docs/operations.md: 0.265 to the queue, 0.24 of it for SQS', () => {
    expect(sqsDollars(event(TO_QUEUE))).toBeCloseTo(0.24, 6);
    expect(dollarsPerMillion(event(TO_QUEUE))).toBeCloseTo(0.265, 4);
  });

  it('are those of docs/operations.md with a table or a bucket', () => {
    expect(dollarsPerMillion(event({ writeUnits: 100, readUnits: 100 }))).toBeCloseTo(0.025 + 0.12 + 0.75, 4);
    expect(dollarsPerMillion(event({ objects: 1 }))).toBeCloseTo(0.025 + 0.12 + 0.05, 4);
  });

  it('count each 64 KiB of what is sent and received', () => {
    const large = event(TO_QUEUE, { messageBytes: Array(100).fill(64 * KIB) });
    const [sent, received, deleted] = [100, 100, 10];
    expect(sqsDollars(large)).toBeCloseTo(((sent + received + deleted + 30) / 100) * 0.4, 6);
  });

  it('fall to a hundredth of SQS with a hundred requests in a message that is billed as one', () => {
    const packed = event({ messages: 1, chunks: 1 }, { messageBytes: [100], requests: 100 });
    expect(sqsDollars(packed)).toBeCloseTo((2 * (1 + 1 + 0.1) * 0.4) / 100, 6);
  });

  it('rise with the time of a batch once that is more than 100 ms', () => {
    const [quick, slow] = [999, 2_000].map((microsecondsPerRequest) =>
      dollarsPerMillion(event(TO_QUEUE, { microsecondsPerRequest })),
    ) as [number, number];
    expect(quick).toBeCloseTo(0.265, 4);
    expect(slow - quick).toBeCloseTo(10_000 * 0.1 * (1769 / KIB) * 0.0000133334, 4);
  });

  it('reckon with no more in a batch than the 6 MB that SQS hands over', () => {
    const messageBytes = Array(100).fill(120_000);
    const withHalf = dollarsPerMillion(event({}, { messageBytes })) - sqsDollars(event({}, { messageBytes }));
    expect(withHalf).toBeCloseTo(2 * 0.025, 3);
  });
});
