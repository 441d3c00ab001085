import type { Arrivals } from '../workload/arrivals.ts';

/** What gathering does to requests and batches. */
export interface GatherFigures {
  readonly p50WaitMs: number;
  readonly p99WaitMs: number;
  /** Of a batch, from 0 to 1. */
  readonly fill: number;
}

export interface GatherSettings {
  readonly batchSize: number;
  readonly windowMs: number;
}

/** Rates that are not constant are taken at so many moments of their period. */
const MOMENTS = 200;

/**
 * What size or window, whichever comes first, comes to where requests arrive at random and the pipe is never full. A
 * rate that changes is taken to be constant for the length of a window.
 *
 * With a rate r, request k of a batch (from 0) comes S(k) after the first, Erlang-distributed, if that is within the
 * window W. The batch of size B goes at min(W, S(B-1)). So request k waits for longer than x when S(k) < W - x and the
 * other B-1-k take longer than x: both independent. The expected number of requests in a batch is the sum of
 * P(S(k) <= W).
 */
export function gatherTheory(arrivals: Arrivals, settings: GatherSettings): GatherFigures {
  const { periodSeconds, rateAt } = arrivals;
  const moments = Array.from({ length: MOMENTS }, (_, index) => rateAt(((index + 0.5) * periodSeconds) / MOMENTS));
  const rates = [...Map.groupBy(moments, (rate) => rate)].map(([rate, same]) => ({ rate, weight: same.length * rate }));
  const batches = rates.map(({ rate, weight }) => ({ rate, weight, requests: requestsInBatch(rate, settings) }));
  const total = sum(batches, ({ weight }) => weight);
  const waitsLonger = (ms: number): number =>
    sum(batches, ({ rate, weight, requests }) => (weight * stillWaiting(rate, settings, ms)) / requests) / total;
  const meanBatch = total / sum(batches, ({ weight, requests }) => weight / requests);
  return {
    p50WaitMs: quantile(waitsLonger, 0.5, settings.windowMs),
    p99WaitMs: quantile(waitsLonger, 0.01, settings.windowMs),
    fill: meanBatch / settings.batchSize,
  };
}

function requestsInBatch(rate: number, { batchSize, windowMs }: GatherSettings): number {
  const within = erlangs((rate * windowMs) / 1000, batchSize);
  return within.reduce((total, one) => total + one, 0);
}

/** Expected requests of a batch that wait for longer than `ms`. */
function stillWaiting(rate: number, { batchSize, windowMs }: GatherSettings, ms: number): number {
  if (ms >= windowMs) return 0;
  const beforeThat = erlangs((rate * (windowMs - ms)) / 1000, batchSize);
  const within = erlangs((rate * ms) / 1000, batchSize);
  return sum(beforeThat.keys(), (k) => (beforeThat[k] as number) * (1 - (within[batchSize - 1 - k] as number)));
}

/** P(S(k) <= t) for k from 0 to `count` - 1, given r·t: that at least k requests come in that time. */
function erlangs(mean: number, count: number): number[] {
  const probabilities = [1];
  let exactly = Math.exp(-mean);
  for (let k = 1; k < count; k++) {
    probabilities.push(Math.max(0, (probabilities[k - 1] as number) - exactly));
    exactly *= mean / k;
  }
  return probabilities;
}

/** The wait that a share of the requests exceeds. */
function quantile(waitsLonger: (ms: number) => number, share: number, windowMs: number): number {
  let [low, high] = [0, windowMs];
  for (let step = 0; step < 50; step++) {
    const middle = (low + high) / 2;
    if (waitsLonger(middle) > share) low = middle;
    else high = middle;
  }
  return high;
}

function sum<T>(items: Iterable<T>, value: (item: T) => number): number {
  let total = 0;
  for (const item of items) total += value(item);
  return total;
}
