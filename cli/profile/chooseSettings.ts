import { BATCH_SIZE, MAX_EVENT_BYTES, MAXIMUM_CONCURRENCY } from '../../lambda/core/limits.ts';
import { SETTINGS } from '../../lambda/settings.ts';
import { dollars, duration, durationOver, figure } from '../format.ts';
import {
  type Bill,
  gatheringMs,
  type Invocation,
  invocationWith,
  lambdaDollars,
  type Messages,
  peakBytes,
  type RunCost,
} from './costs.ts';
import { type Arrivals, poissonArrivals, simulateMapping } from './simulate.ts';

export interface SettingsQuestion {
  /** Measured runs: some row counts at some lengths, for one or more numbers of threads. */
  readonly table: readonly RunCost[];
  readonly length: number;
  /** Average rate. Messages arrive at random times. */
  readonly messagesPerSecond: number;
  /** Time limit from a request to its answer, for 99 % of the messages. */
  readonly budgetMs: number;
  readonly messages: Messages;
}

export type SettingsAnswer = ReturnType<typeof settingsFor>;

/** Number of simulated messages: the traffic of `seconds`, within bounds. */
const SIMULATED = { seconds: 20, min: 4_000, max: 10_000 };

/**
 * Returns the settings for a model and a traffic. It simulates every candidate, and compares the cost of those within
 * the budget.
 *
 * @throws Error if the model's runs need more memory than a function has, or more time than its timeout
 */
export function settingsFor(question: SettingsQuestion) {
  const { budgetMs, messagesPerSecond } = question;
  const { seconds, min, max } = SIMULATED;
  const messages = Math.ceil(Math.min(max, Math.max(min, messagesPerSecond * seconds)));
  const arrivals = poissonArrivals(messagesPerSecond, messages);
  const candidates = candidatesFor(question);
  const expectations = candidates.map((candidate) => expectationOf(candidate, arrivals, question));
  const best = bestOfEach(expectations, budgetMs);
  const gain = candidates[0]?.invocation.times.gain ?? 1;
  const choice = choose(best, gain, budgetMs);
  if (choice === undefined) throw new Error(tooLarge(question));
  return {
    ...choice,
    tried: expectations.length,
    /** Best settings for each batch size and window, the cheapest first. */
    candidates: best.toSorted((a, b) => a.dollarsPerMillionRows - b.dollarsPerMillionRows),
  };
}

/** Returns the cheapest expectation within the budget for each batch size and window, or the fastest one if none is. */
function bestOfEach(expectations: readonly Expectation[], budgetMs: number): Expectation[] {
  const groups = Map.groupBy(expectations, ({ batchSize, windowSeconds }) => `${batchSize} ${windowSeconds}`);
  return [...groups.values()].map((group) => {
    const within = group.filter(({ p99AgeMs }) => p99AgeMs <= budgetMs);
    return within.length > 0
      ? within.reduce((best, one) => (one.dollarsPerMillionRows < best.dollarsPerMillionRows ? one : best))
      : group.reduce((best, one) => (one.p99AgeMs < best.p99AgeMs ? one : best));
  });
}

function tooLarge({ table }: SettingsQuestion): string {
  const bytes = Math.min(...table.map(({ peakRssBytes }) => peakRssBytes));
  const ms = Math.min(...table.map(({ medianMs }) => medianMs));
  return (
    `expected settings of a function that holds the traffic, found none: the smallest run takes ${Math.ceil(ms)} ms and ` +
    `${Math.ceil(bytes / MIB)} MB; lower the rate, or spread it over several queues`
  );
}

type Candidate = ReturnType<typeof candidatesFor>[number];

const BATCH_SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];
const WINDOWS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 300];
const CONCURRENCIES = [2, 5, 10, 20, 50, 100, 200, 500, 1_000];
const FEW_CONCURRENCIES = 2;
/** Memory sizes to try, in MB. They are multiples and fractions of one vCPU. */
const MEMORIES = [512, 1_024, 1_769, 3_538, 5_307, 7_076, 10_240];
/** More memory is tried if a full run then takes less than this share of the time. */
const FASTER = 0.98;
const WITHOUT_WINDOW = 10;
/** Bytes of a record around its body in an event. */
const RECORD_BYTES = 1_000;
/** Memory relative to the measured peak. The check at synth requires the same. */
const MEMORY_HEADROOM = 1.3;
/** Maximum share of the function's timeout that a full batch may take, and concurrency relative to the need. */
const TIMEOUT_SHARE = 0.6;
const CONCURRENCY_HEADROOM = 1.25;
const MIB = 1024 * 1024;

/** Returns all candidates. The list is empty if the model's runs need too much memory. */
export function candidatesFor(question: SettingsQuestion) {
  const leftSeconds = (question.budgetMs - gatheringMs(question)) / 1000;
  const windows = WINDOWS.filter((seconds) => seconds === 0 || seconds < leftSeconds);
  return invocationsToTry(question).flatMap((invocation) =>
    windows.flatMap((windowSeconds) =>
      batchSizesFor(question, windowSeconds).flatMap((batchSize) =>
        concurrenciesFor(question, invocation, batchSize).map((maximumConcurrency) => ({
          batchSize,
          windowSeconds,
          maximumConcurrency,
          /** Invocation of a function with a certain memory. */
          invocation,
        })),
      ),
    ),
  );
}

function invocationsToTry({ table, length, messages }: SettingsQuestion): Invocation[] {
  const tried: Invocation[] = [];
  for (const memoryMb of MEMORIES) {
    const invocation = invocationWith(memoryMb, table, length, messages);
    const rows = invocation.times.rowsPerRun;
    if (memoryMb * MIB < MEMORY_HEADROOM * peakBytes(table, rows)) continue;
    const before = tried.at(-1);
    if (before === undefined || invocation.msOf(rows) < FASTER * before.msOf(rows)) tried.push(invocation);
  }
  return tried;
}

/**
 * Returns batch sizes up to twice the number of messages that arrive in a window. A larger batch would never be full.
 */
function batchSizesFor({ messages, messagesPerSecond }: SettingsQuestion, windowSeconds: number): number[] {
  const maxBytes = Math.floor(MAX_EVENT_BYTES / (messages.messageBytes + RECORD_BYTES));
  const max = Math.min(
    BATCH_SIZE.max,
    Math.max(1, maxBytes),
    windowSeconds === 0 ? WITHOUT_WINDOW : Number.POSITIVE_INFINITY,
  );
  const coming = WITHOUT_WINDOW + 2 * messagesPerSecond * windowSeconds;
  const sizes = BATCH_SIZES.filter((size, index) => size <= max && (BATCH_SIZES[index - 1] ?? 0) < coming);
  return windowSeconds === 0 ? sizes : sizes.filter((size) => size > 1);
}

/** Returns the lowest sufficient concurrency and a few higher ones, which give smaller batches and shorter waits. */
function concurrenciesFor(
  { messagesPerSecond }: SettingsQuestion,
  invocation: Invocation,
  batchSize: number,
): number[] {
  const fullMs = invocation.msOf(batchSize);
  if (fullMs > TIMEOUT_SHARE * 1000 * SETTINGS.timeoutSeconds.default) return [];
  // Little's law, with headroom.
  const needed = (CONCURRENCY_HEADROOM * messagesPerSecond * fullMs) / 1000 / batchSize;
  return CONCURRENCIES.filter((max) => max <= MAXIMUM_CONCURRENCY.max && needed <= max).slice(0, FEW_CONCURRENCIES);
}

export type Expectation = ReturnType<typeof expectationOf>;

/** Simulates a candidate and estimates its cost. */
export function expectationOf(
  { invocation, ...settings }: Candidate,
  arrivals: Arrivals,
  { messages }: Pick<Bill, 'messages'>,
) {
  const { batchSize, maximumConcurrency } = settings;
  const { memoryMb, times, msOf } = invocation;
  const course = simulateMapping(arrivals.times, settings, msOf, arrivals.from);
  const messagesPerInvocation = course.messages / course.invocations;
  const bill = { messages, messagesPerSecond: arrivals.perSecond, maximumConcurrency };
  return {
    ...settings,
    memoryMb,
    maxBatchRows: times.rowsPerRun,
    /** Average number of messages in an invocation, and its share of the batch size. */
    messagesPerInvocation,
    fill: messagesPerInvocation / batchSize,
    /** Time from a request to its result, for 99 % of the messages: what gathering it takes, and what the message does. */
    p99AgeMs: course.p99Ms + gatheringMs(bill),
    dollarsPerMillionRows: lambdaDollars(course, invocation, bill),
  };
}

/** Minimum relative throughput at which batching is worthwhile. */
const MIN_GAIN = 1.1;
/**
 * Maximum relative cost of settings that count as equally cheap. Among these, the ones that answer sooner are chosen.
 */
const AS_CHEAP = 1.01;

/**
 * Chooses the cheapest settings within the budget. If the model gains nothing from batches, it chooses batches of one
 * without a window, because messages that share an invocation would only wait for each other.
 *
 * @param gain throughput of the best run relative to runs of one row
 * @returns undefined if there are no expectations
 */
function choose(expectations: readonly Expectation[], gain: number, budgetMs: number) {
  const isWithin = ({ p99AgeMs }: Expectation) => p99AgeMs <= budgetMs;
  const singles = expectations.filter(({ batchSize }) => batchSize === 1);
  /** Cheapest settings with one message per invocation. Undefined if no function holds the traffic so. */
  const oneByOne = cheapestOf(singles.filter(isWithin)) ?? soonestOf(singles);
  if (gain < MIN_GAIN && oneByOne !== undefined) {
    const reason = `batching does not pay: the best run gives ${figure(gain)} times the rows a second of one row, less than ${MIN_GAIN}`;
    return { oneByOne, chosen: oneByOne, reason: `${reason}${late(oneByOne, budgetMs)}` };
  }
  const cheapest = cheapestOf(expectations.filter(isWithin));
  if (cheapest === undefined) {
    const soonest = soonestOf(expectations);
    return soonest && { oneByOne, chosen: soonest, reason: late(soonest, budgetMs).slice(2) };
  }
  const { maxBatchRows, batchSize, messagesPerInvocation, p99AgeMs, dollarsPerMillionRows } = cheapest;
  const gains = `a run of ${maxBatchRows} rows gives ${figure(gain)} times the rows a second of one row`;
  const instead =
    oneByOne === undefined
      ? 'where no function holds messages one by one'
      : `in place of ${dollars(oneByOne.dollarsPerMillionRows)} one by one`;
  const reason =
    batchSize === 1
      ? `batching does not pay at this rate: ${gains}, but no batch within the budget costs less than single messages`
      : `at this traffic batches of ${figure(messagesPerInvocation)} messages on average cost ` +
        `${dollars(dollarsPerMillionRows)} a million rows ${instead}, and all but 1 % are answered within ` +
        `${duration(p99AgeMs)} of ${duration(budgetMs)}; ${gains}`;
  return { oneByOne, chosen: cheapest, reason };
}

function late(expectation: Expectation, budgetMs: number): string {
  if (expectation.p99AgeMs <= budgetMs) return '';
  return `; nothing that was tried answers all but 1 % within ${duration(budgetMs)}, this takes ${durationOver(expectation.p99AgeMs, budgetMs)}: allow more time`;
}

function cheapestOf(expectations: readonly Expectation[]): Expectation | undefined {
  const min = Math.min(...expectations.map((one) => one.dollarsPerMillionRows));
  return soonestOf(expectations.filter((one) => one.dollarsPerMillionRows <= AS_CHEAP * min));
}

function soonestOf(expectations: readonly Expectation[]): Expectation | undefined {
  return expectations.toSorted((a, b) => a.p99AgeMs - b.p99AgeMs || a.memoryMb - b.memoryMb)[0];
}
