import type { Clock } from '../../lambda/aws/clock.ts';
import type { MessageRecord } from '../../lambda/core/record.ts';
import { createLanes } from '../../lambda/hosts/modelQueues.ts';
import { type Arrivals, drawArrivals } from '../workload/arrivals.ts';
import { createRandom } from '../workload/random.ts';
import type { GatherFigures, GatherSettings } from './gatherTheory.ts';

const SEED = 11;

/** What the worker's own lanes do with requests that arrive one by one, on a clock that jumps. */
export function simulateGather(arrivals: Arrivals, settings: GatherSettings, requests: number): GatherFigures {
  const clock = createJumpingClock();
  const cameAt = new Map<MessageRecord, number>();
  const waits: number[] = [];
  let batches = 0;
  const lanes = createLanes({
    names: [''],
    laneOf: () => '',
    limits: { ...settings, batchBytes: Number.POSITIVE_INFINITY },
    mostOf: () => settings.batchSize,
    depth: Number.POSITIVE_INFINITY,
    keepsTogether: false,
    clock,
    async dispatch(records) {
      batches += 1;
      for (const record of records) waits.push(clock.now() - (cameAt.get(record) as number));
    },
  });
  for (const ms of drawArrivals(arrivals, requests, createRandom(SEED))) {
    clock.jumpTo(ms);
    const record = emptyRecord();
    cameAt.set(record, ms);
    lanes.add([record]);
  }
  clock.jumpTo(Number.POSITIVE_INFINITY);
  const sorted = waits.toSorted((a, b) => a - b);
  const quantile = (share: number): number => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  return {
    p50WaitMs: quantile(0.5),
    p99WaitMs: quantile(0.99),
    fill: waits.length / (batches * settings.batchSize),
  };
}

function emptyRecord(): MessageRecord {
  const attributes = { ApproximateReceiveCount: '1', SentTimestamp: '0' };
  return { messageId: '', receiptHandle: '', body: '', attributes, messageAttributes: {}, eventSourceARN: '' };
}

/** A clock that stands still until it is told the time; what is due on the way happens at its own time. */
function createJumpingClock(): Clock & { jumpTo(ms: number): void } {
  const timers = new Map<object, { readonly at: number; readonly callback: () => void }>();
  let nowMs = 0;
  return {
    now: () => nowMs,
    after(ms, callback) {
      const timer = {};
      timers.set(timer, { at: nowMs + ms, callback });
      return () => void timers.delete(timer);
    },
    jumpTo(ms) {
      for (;;) {
        const [next] = [...timers].toSorted(([, a], [, b]) => a.at - b.at);
        if (next === undefined || next[1].at > ms) break;
        const [timer, { at, callback }] = next;
        timers.delete(timer);
        nowMs = at;
        callback();
      }
      nowMs = ms;
    },
  };
}
