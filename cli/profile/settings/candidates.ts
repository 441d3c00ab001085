import {
  BATCH_SIZE,
  MAX_EVENT_BYTES,
  MAXIMUM_CONCURRENCY,
  RANGES,
  WINDOW_SECONDS,
} from '../../../lambda/core/limits.ts';
import { HOST_COSTS, type HostCosts, type Invocation, invocationWith, type Messages } from './invocation.ts';
import { peakBytes, type RunCost } from './runTimes.ts';

/** Settings that are tried. */
export interface Candidate {
  readonly batchSize: number;
  readonly windowSeconds: number;
  readonly memoryMb: number;
  readonly maximumConcurrency: number;
}

/** What settings are tried for. */
export interface Load {
  readonly table: readonly RunCost[];
  /** Of the rows. */
  readonly length: number;
  readonly messages: Messages;
  readonly messagesPerSecond: number;
  readonly budgetMs: number;
  readonly host?: HostCosts | undefined;
}

const BATCH_SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];
const WINDOWS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 300];
const FEW_WINDOWS = 3;
const CONCURRENCIES = [2, 5, 10, 20, 50, 100, 200, 500, 1_000];
const FEW_CONCURRENCIES = 2;
/** Multiples of one vCPU, and parts of one. */
const MEMORIES = [512, 1_024, 1_769, 3_538, 5_307, 7_076, 10_240];
/** More memory that makes it only so much faster is not worth trying. */
const FASTER = 0.98;
const WITHOUT_WINDOW = 10;
/** Bytes of a record around its body, in an event. */
const RECORD_BYTES = 1_000;
/** Of memory, beyond the peak that was seen; as the check at synth asks for. */
const MEMORY_HEADROOM = 1.3;
/** What a full batch may take of the function's timeout, and invocations of the concurrency. */
const TIMEOUT_SHARE = 0.6;
const CONCURRENCY_HEADROOM = 1.25;
const MIB = 1024 * 1024;

/** Everything that is tried, by the function's memory. Empty where the model's runs take more memory than there is. */
export function candidatesFor(load: Load): { readonly invocation: Invocation; readonly candidates: Candidate[] }[] {
  return invocationsToTry(load).map((invocation) => ({
    invocation,
    candidates: windowsWithin(load.budgetMs).flatMap((windowSeconds) =>
      batchSizesFor(load, windowSeconds).flatMap((batchSize) =>
        concurrenciesFor(load, invocation, batchSize).map((maximumConcurrency) => ({
          batchSize,
          windowSeconds,
          memoryMb: invocation.memoryMb,
          maximumConcurrency,
        })),
      ),
    ),
  }));
}

function invocationsToTry({ table, length, messages, host = HOST_COSTS }: Load): Invocation[] {
  const tried: Invocation[] = [];
  for (const memoryMb of MEMORIES) {
    const invocation = invocationWith(memoryMb, table, length, messages, host);
    const rows = invocation.times.rowsPerRun;
    if (memoryMb * MIB < MEMORY_HEADROOM * peakBytes(table, rows)) continue;
    const before = tried.at(-1);
    if (before === undefined || invocation.msOf(rows) < FASTER * before.msOf(rows)) tried.push(invocation);
  }
  return tried;
}

/** None, the shortest, and the longest that leave time to answer. */
function windowsWithin(budgetMs: number): number[] {
  const within = WINDOWS.filter((seconds) => seconds <= WINDOW_SECONDS.most && seconds * 1000 < budgetMs);
  return [...new Set([...within.slice(0, FEW_WINDOWS), ...within.slice(-FEW_WINDOWS)])];
}

/** Up to twice as many as come in a window; more would never be full. */
function batchSizesFor({ messages, messagesPerSecond }: Load, windowSeconds: number): number[] {
  const mostBytes = Math.floor(MAX_EVENT_BYTES / (messages.messageBytes + RECORD_BYTES));
  const most = Math.min(
    BATCH_SIZE.most,
    Math.max(1, mostBytes),
    windowSeconds === 0 ? WITHOUT_WINDOW : Number.POSITIVE_INFINITY,
  );
  const coming = WITHOUT_WINDOW + 2 * messagesPerSecond * windowSeconds;
  const sizes = BATCH_SIZES.filter((size, index) => size <= most && (BATCH_SIZES[index - 1] ?? 0) < coming);
  return windowSeconds === 0 ? sizes : sizes.filter((size) => size > 1);
}

/** Invocations at a time that keep up, by Little's law, with some to spare. */
export function concurrencyFor(messagesPerSecond: number, fullMs: number, batchSize: number): number {
  return (CONCURRENCY_HEADROOM * messagesPerSecond * fullMs) / 1000 / batchSize;
}

/** The fewest that keep up; a few more gather less and wait less. */
function concurrenciesFor({ messagesPerSecond }: Load, invocation: Invocation, batchSize: number): number[] {
  const fullMs = invocation.msOf(batchSize);
  if (fullMs > TIMEOUT_SHARE * 1000 * RANGES.timeoutSeconds.default) return [];
  const needed = concurrencyFor(messagesPerSecond, fullMs, batchSize);
  return CONCURRENCIES.filter((most) => most <= MAXIMUM_CONCURRENCY.most && needed <= most).slice(0, FEW_CONCURRENCIES);
}
