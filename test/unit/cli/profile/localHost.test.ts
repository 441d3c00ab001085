import { setImmediate as settled } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { type BatchSource, createBatchSource } from '../../../../cli/local/localMapping.ts';
import {
  type InvocationMs,
  type Mapping,
  poissonArrivals,
  quantile,
  simulateMapping,
} from '../../../../cli/profile/simulate.ts';
import type { Clock } from '../../../../lambda/core/concurrency.ts';
import { sqsRecord } from '../../../helpers/handler.ts';

/** The local host's own batch source, with a clock that waits for nobody: what is found here no load can change. */
describe('the local host', () => {
  it.each([
    [10, { batchSize: 100, windowSeconds: 1, maximumConcurrency: 2 }],
    [50, { batchSize: 100, windowSeconds: 1, maximumConcurrency: 2 }],
    [250, { batchSize: 100, windowSeconds: 1, maximumConcurrency: 2 }],
    [50, { batchSize: 10, windowSeconds: 0, maximumConcurrency: 2 }],
  ])('gathers at %d messages a second as the model of the event source mapping says, %j', async (rate, mapping) => {
    const invocationMs: InvocationMs = (messages) => 20 + messages / 2;
    const predicted = simulateMapping(poissonArrivals(rate, 50_000).times, mapping, invocationMs);
    const measured = await measure(poissonArrivals(rate, 2_000).times, mapping, invocationMs);
    expect(measured.batch / (predicted.messages / predicted.invocations)).toBeCloseTo(1, 1);
    expect(Math.abs(measured.p99Ms / predicted.p99Ms - 1)).toBeLessThan(0.15);
    expect(Math.abs(measured.p50Ms / predicted.p50Ms - 1)).toBeLessThan(0.15);
  });
});

async function measure(
  times: Float64Array,
  { batchSize, windowSeconds, maximumConcurrency }: Mapping,
  invocationMs: InvocationMs,
): Promise<{ readonly batch: number; readonly p50Ms: number; readonly p99Ms: number }> {
  const clock = createVirtualClock();
  const waiting: SQSRecord[] = [];
  const polls: (() => void)[] = [];
  const receive = async (max: number): Promise<SQSRecord[]> => {
    if (waiting.length === 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      polls.push(resolve);
      const cancel = clock.after(1000, resolve);
      await promise;
      cancel();
    }
    return waiting.splice(0, max);
  };
  const onError = (error: unknown) => {
    throw error;
  };
  const sources = Array.from({ length: maximumConcurrency }, () =>
    createBatchSource({ batchSize, windowSeconds, clock, receive, onError }),
  );
  const ages: number[] = [];
  let invocations = 0;
  const invoke = async (source: BatchSource): Promise<void> => {
    for (let batch = await source.next(); batch !== undefined; batch = await source.next()) {
      invocations += 1;
      const { promise, resolve } = Promise.withResolvers<void>();
      clock.after(invocationMs(batch.records.length), resolve);
      await promise;
      ages.push(...batch.records.map(({ body }) => clock.now() - (times[Number(body)] as number)));
    }
  };
  const slots = sources.map(invoke);
  for (const [index, time] of times.entries()) {
    await clock.passUntil(time);
    waiting.push(sqsRecord(String(index)));
    polls.shift()?.();
    await settled();
  }
  await clock.passUntil((times.at(-1) as number) + 10_000);
  const stopped = sources.map((source) => source.stop());
  await clock.passUntil(clock.now() + 2_000);
  await Promise.all([...stopped, ...slots]);
  expect(ages).toHaveLength(times.length);
  const sorted = Float64Array.from(ages).sort();
  return { batch: times.length / invocations, p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) };
}

function createVirtualClock(): Clock & { passUntil(ms: number): Promise<void> } {
  let nowMs = 0;
  const timers = new Set<{ readonly dueMs: number; readonly callback: () => void }>();
  return {
    now: () => nowMs,
    after(ms, callback) {
      const timer = { dueMs: nowMs + ms, callback };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    async passUntil(ms) {
      await settled();
      for (;;) {
        const [next] = [...timers].toSorted((a, b) => a.dueMs - b.dueMs);
        if (next === undefined || next.dueMs > ms) break;
        nowMs = next.dueMs;
        timers.delete(next);
        next.callback();
        await settled();
      }
      nowMs = ms;
    },
  };
}
