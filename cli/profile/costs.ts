import { plural } from '../../lambda/core/failure.ts';
import { INVOCATIONS_AT_FIRST, MB_PER_VCPU } from '../../lambda/core/limits.ts';
import type { Cost, MeasuredRun } from '../../lambda/core/model.ts';
import type { Prices } from '../priceList.ts';
import type { Course } from './simulate.ts';

/**
 * What a message takes besides the runs of its rows: CPU of a message with its calls to SQS, CPU of each request in it
 * (decoding, stacking, encoding), and the time from a call to SQS to its answer. The CPU was measured with
 * `npm run bench -- --scenario hops` on two cores; the round trip is AWS's own example of one within a region.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-throughput-horizontal-scaling-and-batching.html
 */
export const HOST_COSTS = { messageMs: 0.066, requestMs: 0.018, roundTripMs: 20 } as const;

/** What comes in a message and goes out for it. */
export interface Messages {
  /** Requests in a message, of one row each. */
  readonly requestsPerMessage: number;
  /** Of a message, and of the results of one. */
  readonly messageBytes: number;
  readonly resultBytes: number;
  /** True if results share messages of the result queue; else each message's results have their own. */
  readonly packedResults: boolean;
}

/** An invocation of a function with so much memory. */
export interface Invocation {
  readonly memoryMb: number;
  readonly times: RunTimes;
  /** Milliseconds with so many messages. */
  msOf(messages: number): number;
}

/** A function's share of the CPUs. @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html */
export function vcpusOf(memoryMb: number): number {
  return memoryMb / MB_PER_VCPU;
}

const MESSAGES_PER_CALL = 10;
/** Of the result queue's writer, at a time. */
const CALLS_AT_ONCE = 16;
/** SQS bills each 64 KiB as a request, and packed results fill that. */
const BILLED_BYTES = 65_536;

/**
 * An invocation decodes and encodes on one core, runs the model, and waits until its results are written, one after the
 * other. In reality these overlap, so it is a little shorter.
 *
 * @param length of rows
 */
export function invocationWith(
  memoryMb: number,
  table: readonly RunCost[],
  length: number,
  messages: Messages,
): Invocation {
  const vcpus = vcpusOf(memoryMb);
  const times = runTimes(table, vcpus, length);
  const { requestsPerMessage } = messages;
  const hostMs = (HOST_COSTS.messageMs + requestsPerMessage * HOST_COSTS.requestMs) / Math.min(1, vcpus);
  return {
    memoryMb,
    times,
    msOf(count) {
      const turns = Math.ceil(callsFor(resultMessages(count, messages)) / CALLS_AT_ONCE);
      return count * hostMs + times.msOf(count * requestsPerMessage) + turns * HOST_COSTS.roundTripMs;
    },
  };
}

/** Messages of the result queue that the results of so many messages take. */
function resultMessages(count: number, { packedResults, resultBytes }: Messages): number {
  return packedResults ? Math.ceil(count / Math.max(1, Math.floor(BILLED_BYTES / resultBytes))) : count;
}

/** Batch requests for so many messages. */
function callsFor(messages: number): number {
  return Math.ceil(messages / MESSAGES_PER_CALL);
}

/** What runs of some rows were measured to take. */
export interface RunCost {
  readonly rows: number;
  /** Of the ragged axis; 1 without one. */
  readonly length: number;
  /** Threads of the session. */
  readonly threads: number;
  readonly medianMs: number;
  /** By how much the middle four fifths of the runs differ, as a share of the median. @default 0 */
  readonly spread?: number | undefined;
  readonly rowsPerSecond: number;
  /** Most memory that the process had held by then. */
  readonly peakRssBytes: number;
}

/** What runs take with a given share of CPUs. */
export interface RunTimes {
  /** The fewest rows of a run that cost nearly as little a row as any. */
  readonly rowsPerRun: number;
  /** How many times as many rows a second such a run gives as one row a run. */
  readonly gain: number;
  /** What is left of the gain if its runs of many rows were slow ones and its runs of one row fast ones. */
  readonly sureGain: number;
  /** Runs that so many rows are cut into. */
  runsOf(rows: number): number;
  /** Milliseconds of these runs together. */
  msOf(rows: number): number;
}

/** A row that costs so much more than in the best run is as good: fewer rows take less memory and answer sooner. */
const NEARLY = 1.05;
/** The most that the spread of runs takes from a gain, each way: four times the rows a second are no accident. */
const MAX_DOUBT = 0.6;

/**
 * The run times of an environment with `vcpus`. Threads that have a core each take what was measured; with fewer cores
 * than threads it is longer in proportion, as if every thread worked all the time. Of several numbers of threads the
 * fastest counts. Row counts between those measured are interpolated.
 *
 * @param table some rows of each of some lengths, for one or more numbers of threads; of long ones there may be fewer
 * @param length that rows have
 */
export function runTimes(table: readonly RunCost[], vcpus: number, length: number): RunTimes {
  const byThreads = [...Map.groupBy(table, ({ threads }) => threads)].map(([threads, runs]) => ({
    threads,
    slower: Math.max(1, threads / vcpus),
    cost: tableCost(extrapolate(runs.map(({ rows, length, medianMs }) => ({ rows, length, ms: medianMs })))),
  }));
  const fastest = (rows: number) =>
    byThreads
      .map(({ threads, slower, cost }) => ({ threads, ms: slower * cost(rows, length) }))
      .reduce((best, one) => (one.ms < best.ms ? one : best));
  const counts = [...new Set(table.map(({ rows }) => rows))].toSorted((a, b) => a - b);
  const msPerRow = counts.map((rows) => fastest(rows).ms / rows);
  const limit = NEARLY * Math.min(...msPerRow);
  const rowsPerRun = counts[msPerRow.findIndex((ms) => ms <= limit)] as number;
  const fullRunMs = fastest(rowsPerRun).ms;
  const gain = (fastest(1).ms * rowsPerRun) / fullRunMs;
  // Of the fastest number of threads alone: with another one, something else may have held the machine up.
  const doubtOf = (rows: number): number => {
    const { threads } = fastest(rows);
    const spreads = table.filter((run) => run.rows === rows && run.threads === threads).map(({ spread = 0 }) => spread);
    return Math.min(MAX_DOUBT, Math.max(0, ...spreads) / 2);
  };
  return {
    rowsPerRun,
    gain,
    sureGain: (gain * (1 - doubtOf(1))) / (1 + doubtOf(rowsPerRun)),
    runsOf: (rows) => Math.ceil(rows / rowsPerRun),
    msOf(rows) {
      const rest = rows % rowsPerRun;
      return Math.floor(rows / rowsPerRun) * fullRunMs + (rest === 0 ? 0 : fastest(rest).ms);
    },
  };
}

/** The most memory that runs of up to so many rows were seen to take. */
export function peakBytes(table: readonly RunCost[], rows: number): number {
  return Math.max(...table.filter((run) => run.rows <= rows).map(({ peakRssBytes }) => peakRssBytes));
}

/** US dollars for a million rows, and what they are for. */
export interface Dollars {
  readonly compute: number;
  readonly invocations: number;
  /** Requests to the request queue, sent by the producer ten to a call. */
  readonly requestQueue: number;
  /** Requests to the result queue, the consumer's among them, ten to a call. */
  readonly resultQueue: number;
  /** What is paid while no message comes. */
  readonly idle: number;
  readonly total: number;
}

export type Architecture = 'arm64' | 'x86_64';

export interface Bill {
  readonly prices: Prices;
  readonly architecture: Architecture;
  readonly messages: Messages;
  readonly messagesPerSecond: number;
  /** Most invocations at a time. */
  readonly maximumConcurrency: number;
}

const MILLION = 1_000_000;
/** A poll that finds nothing waits so long. */
const LONG_POLL_SECONDS = 20;

/**
 * What rows cost on Lambda: milliseconds of memory, invocations, and requests to SQS, of which each 64 KiB is one. What is
 * the same for all settings is left out: logs, metrics, alarms.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html for the polling
 */
export function lambdaDollars(
  course: Pick<Course, 'sizes' | 'messages' | 'invocations'>,
  invocation: Pick<Invocation, 'memoryMb' | 'msOf'>,
  bill: Bill,
): Dollars {
  const { prices, architecture, messages } = bill;
  const perGbSecond = architecture === 'arm64' ? prices.lambdaArmGbSecond : prices.lambdaX86GbSecond;
  let [milliseconds, deletes, resultCalls, results] = [0, 0, 0, 0];
  for (const [size, count] of course.sizes) {
    milliseconds += count * Math.ceil(invocation.msOf(size));
    deletes += count * callsFor(size);
    const written = resultMessages(size, messages);
    results += count * written;
    resultCalls += count * (messages.packedResults ? written : callsFor(written));
  }
  const rows = course.messages * messages.requestsPerMessage;
  const perMillionRows = (dollars: number): number => (dollars * MILLION) / rows;
  const sqs = (requests: number): number => perMillionRows((requests * prices.sqsStandardMillionRequests) / MILLION);
  const sends = course.messages * billedPerMessage(MESSAGES_PER_CALL, messages.messageBytes);
  const receives = course.messages * billedPerMessage(messagesPerReceive(bill), messages.messageBytes);
  const taken = messages.packedResults ? results : results * billedPerMessage(MESSAGES_PER_CALL, messages.resultBytes);
  return sumOf({
    compute: perMillionRows((milliseconds / 1000) * (invocation.memoryMb / 1024) * perGbSecond),
    invocations: perMillionRows((course.invocations * prices.lambdaMillionRequests) / MILLION),
    requestQueue: sqs(sends + receives + deletes),
    resultQueue: sqs(resultCalls + taken + results / MESSAGES_PER_CALL),
    idle: (emptyReceivesPerSecond(bill) * prices.sqsStandardMillionRequests) / rowsPerSecond(bill),
  });
}

/** What an instance that always runs costs. Its host receives and deletes ten messages to a call. */
export function instanceDollars(
  dollarsPerHour: number,
  batchSize: number,
  bill: Pick<Bill, 'prices' | 'messages' | 'messagesPerSecond'>,
): Dollars {
  const { prices, messages } = bill;
  const perMessage = (requests: number): number =>
    (requests * prices.sqsStandardMillionRequests) / messages.requestsPerMessage;
  const moved = 2 * billedPerMessage(MESSAGES_PER_CALL, messages.messageBytes) + 1 / MESSAGES_PER_CALL;
  const results = resultMessages(batchSize, messages) / batchSize;
  const taken = messages.packedResults ? 2 : 2 * billedPerMessage(MESSAGES_PER_CALL, messages.resultBytes);
  return sumOf({
    compute: (dollarsPerHour / 3_600 / rowsPerSecond(bill)) * MILLION,
    invocations: 0,
    requestQueue: perMessage(moved),
    resultQueue: perMessage(results * (taken + 1 / MESSAGES_PER_CALL)),
    idle: 0,
  });
}

export function rowsPerSecond({ messagesPerSecond, messages }: Pick<Bill, 'messagesPerSecond' | 'messages'>): number {
  return messagesPerSecond * messages.requestsPerMessage;
}

function sumOf(parts: Omit<Dollars, 'total'>): Dollars {
  return { ...parts, total: Object.values(parts).reduce((sum, part) => sum + part, 0) };
}

/** SQS requests that a message is billed as, in calls of so many. */
function billedPerMessage(perCall: number, bytes: number): number {
  return Math.max(1, Math.ceil((perCall * bytes) / BILLED_BYTES)) / perCall;
}

/** A poll is answered with the first message that comes; those of the next round trip are in the next one together. */
function messagesPerReceive({ messagesPerSecond, maximumConcurrency }: Bill): number {
  const perPoller = messagesPerSecond / Math.min(INVOCATIONS_AT_FIRST, maximumConcurrency);
  return Math.min(MESSAGES_PER_CALL, 1 + (perPoller * HOST_COSTS.roundTripMs) / 1000);
}

/** Long polls in which nothing comes: with no traffic 15 a minute. */
function emptyReceivesPerSecond({ messagesPerSecond }: Bill): number {
  const inOnePoll = (messagesPerSecond * LONG_POLL_SECONDS) / INVOCATIONS_AT_FIRST;
  return (INVOCATIONS_AT_FIRST / LONG_POLL_SECONDS) * Math.exp(-inOnePoll);
}

/**
 * Measured milliseconds: bilinear between the rows and lengths that were measured, and in proportion beyond them.
 *
 * @param runs every combination of some row counts and some lengths, once each
 * @throws Error when a combination is missing or a measurement is not a positive number
 */
function tableCost(runs: readonly MeasuredRun[]): Cost {
  const rows = distinct(runs.map((run) => run.rows));
  const lengths = distinct(runs.map((run) => run.length));
  const table = rows.map((row) => lengths.map((length) => measurementOf(runs, row, length)));
  return (paddedRows, paddedLength) =>
    interpolate(rows, paddedRows, (row) =>
      interpolate(lengths, paddedLength, (length) => (table[row] as number[])[length] as number),
    );
}

function distinct(sizes: readonly number[]): number[] {
  return [...new Set(sizes)].toSorted((a, b) => a - b);
}

function measurementOf(runs: readonly MeasuredRun[], rows: number, length: number): number {
  const found = runs.filter((run) => run.rows === rows && run.length === length);
  const ms = found[0]?.ms;
  if (found.length === 1 && ms !== undefined && ms > 0 && Number.isFinite(ms)) return ms;
  throw new Error(
    `expected one measurement in milliseconds of ${plural(rows, 'row')} of length ${length}, got ${found.length === 1 ? ms : found.length}; ` +
      'measure every combination of rows and lengths once',
  );
}

/** The value at `size` on the line through the two nearest `sizes`; in proportion to size beyond them. */
function interpolate(sizes: readonly number[], size: number, valueAt: (index: number) => number): number {
  const above = sizes.findIndex((known) => known >= size);
  if (above < 0) return (valueAt(sizes.length - 1) * size) / (sizes.at(-1) as number);
  const upper = sizes[above] as number;
  if (above === 0 || upper === size) return valueAt(above);
  const lower = sizes[above - 1] as number;
  const share = (size - lower) / (upper - lower);
  return valueAt(above - 1) * (1 - share) + valueAt(above) * share;
}

/**
 * Measured runs with those that were too large to be measured: at each length, rows beyond the most that were run there
 * take as long in proportion.
 *
 * @param runs of some row counts at each of some lengths, once each
 */
function extrapolate(runs: readonly MeasuredRun[]): MeasuredRun[] {
  const counts = [...new Set(runs.map(({ rows }) => rows))];
  return [...Map.groupBy(runs, ({ length }) => length)].flatMap(([length, ofLength]) => {
    const largest = ofLength.reduce((max, run) => (run.rows > max.rows ? run : max));
    const beyond = counts.filter((rows) => rows > largest.rows);
    return [...ofLength, ...beyond.map((rows) => ({ rows, length, ms: (largest.ms * rows) / largest.rows }))];
  });
}
