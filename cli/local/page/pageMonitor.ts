import { AsyncLocalStorage } from 'node:async_hooks';
import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import type { Telemetry } from '../../../lambda/aws/telemetry.ts';
import { failure, isFailure } from '../../../lambda/core/failure.ts';
import type { MicroBatchReport } from '../../../lambda/core/observer.ts';
import type { MessageRecord, Outcome, Result, ResultWriter, WriteVerdict } from '../../../lambda/core/record.ts';

import type { Batch } from '../localMapping.ts';
import type { Watch } from '../localStack.ts';
import type {
  AnswerSeen,
  Hello,
  InvocationSeen,
  MicroBatchSeen,
  News,
  ResultSeen,
  SecondSeen,
  TotalsSeen,
} from './wire.ts';

/** Sees what the function does with messages, and keeps the newest of it: bounded, whatever comes. */
export interface Monitor {
  readonly telemetry: Telemetry;
  readonly watch: Watch;
  /** Where results of messages go that the page sent. @default where all go */
  answerOwnTo(writer: ResultWriter): void;
  /** Who is told what became of each message that somebody asked by. @default nobody */
  onAnswer(listener: (answer: AnswerSeen) => void): void;
  /** Most records of an invocation from now on. */
  batchSizeIs(batchSize: number): void;
  sent(messages: number): void;
  /** When the newest message was sent that an invocation has had, in milliseconds since 1970; 0 before the first. */
  newestSentAt(): number;
  history(): Pick<Hello, 'totals' | 'seconds' | 'invocations' | 'results' | 'errors'>;
  totals(): TotalsSeen;
  takeNews(): News;
  takeSeconds(): readonly SecondSeen[];
}

const INVOCATIONS_KEPT = 40;
const RESULTS_KEPT = 20;
/** More of them than anyone reads at a time. */
const MOST_NEWS = 10;

export function createMonitor(now: () => number = Date.now): Monitor {
  const current = new AsyncLocalStorage<OngoingInvocation>();
  const timeline = createTimeline(now);
  const invocations = createNewest<Hello['invocations'][number]>(INVOCATIONS_KEPT);
  const results = createNewest<Hello['results'][number]>(RESULTS_KEPT);
  const errors = createNewest<Hello['errors'][number]>(RESULTS_KEPT);
  const totals = createTotals();
  let numbered = 0;
  let batchSize = 0;
  let newestSentAt = 0;
  let ownWriter: ResultWriter | undefined;
  let tellAnswer: (answer: AnswerSeen) => void = () => {};

  const written = (invocation: OngoingInvocation, taken: readonly Result[]): void => {
    const at = now();
    for (const [index, result] of taken.entries()) {
      timeline.answered(at - invocation.sentAt(result.messageId));
      const purpose = invocation.purposeOf(result.messageId);
      const isError = isErrorBody(result.body);
      const isNewest = index >= taken.length - MOST_NEWS;
      if (!isError && !isNewest && purpose !== 'ask') continue;
      const seen = resultSeen(result, { at, invocation: invocation.number, isError, isLoad: purpose === 'load' });
      results.add(seen);
      if (isError) errors.add(seen);
      invocation.answered(seen);
    }
  };

  return {
    telemetry: {
      middlewares: [],
      outcomes(outcomes) {
        totals.count(outcomes);
        current.getStore()?.outcomes(outcomes);
      },
      hostEnds: () => {},
      observer: {
        microBatch: (report, records) => current.getStore()?.microBatch(report, records),
        decoded: (ms) => current.getStore()?.decoded(ms),
        checked: () => {},
        batchMismatch: () => {},
        written: (ms) => current.getStore()?.written(ms),
        runAbandoned: () => {},
        problem: () => {},
      },
    },
    watch: {
      async around(batch, run) {
        numbered += 1;
        const invocation = createOngoingInvocation(numbered, batch, batchSize, now);
        for (const { messageId } of batch.records) {
          newestSentAt = Math.max(newestSentAt, invocation.sentAt(messageId));
        }
        const verdict = await current.run(invocation, run);
        const { seen, answers } = invocation.end();
        timeline.ended(seen);
        invocations.add(seen);
        for (const answer of answers) tellAnswer(answer);
        return verdict;
      },
      through: (writer) => ({
        async write(all, signal) {
          const invocation = current.getStore();
          if (invocation === undefined) return writer.write(all, signal);
          const isOwn = ({ messageId }: Result): boolean => invocation.purposeOf(messageId) !== undefined;
          const verdicts = await writeApart(all, isOwn, { own: ownWriter ?? writer, others: writer }, signal);
          written(
            invocation,
            all.filter((_, index) => !isFailure(verdicts[index])),
          );
          return verdicts;
        },
        writtenAsOne: writer.writtenAsOne,
      }),
    },
    answerOwnTo: (writer) => {
      ownWriter = writer;
    },
    onAnswer: (listener) => {
      tellAnswer = listener;
    },
    batchSizeIs: (size) => {
      batchSize = size;
    },
    sent: timeline.sent,
    newestSentAt: () => newestSentAt,
    history: () => ({
      totals: totals.seen(),
      seconds: timeline.all(),
      invocations: invocations.all(),
      results: results.all(),
      errors: errors.all(),
    }),
    totals: totals.seen,
    takeNews: () => ({
      invocations: invocations.takeNew(MOST_NEWS),
      results: results.takeNew(MOST_NEWS),
      errors: errors.takeNew(MOST_NEWS),
    }),
    takeSeconds: timeline.takeNew,
  };
}

function createTotals(): { count(outcomes: readonly Outcome[]): void; seen(): TotalsSeen } {
  const errors: Record<string, number> = {};
  const retries: Record<string, number> = {};
  let messages = 0;
  let answered = 0;
  return {
    count(outcomes) {
      messages += outcomes.length;
      for (const outcome of outcomes) {
        if (outcome.status === 'retry') {
          retries[outcome.failure.code] = (retries[outcome.failure.code] ?? 0) + 1;
          continue;
        }
        answered += 1;
        for (const { code } of outcome.failures) errors[code] = (errors[code] ?? 0) + 1;
      }
    },
    seen: () => ({ messages, answered, errors: { ...errors }, retries: { ...retries } }),
  };
}

/** An invocation while it goes on. */
interface OngoingInvocation {
  readonly number: number;
  /** Undefined for messages that the page did not send. */
  purposeOf(messageId: string): Purpose | undefined;
  /** When a message was sent, in milliseconds since 1970. */
  sentAt(messageId: string): number;
  microBatch(report: MicroBatchReport, records: () => readonly number[]): void;
  decoded(ms: number): void;
  written(ms: number): void;
  outcomes(outcomes: readonly Outcome[]): void;
  answered(result: ResultSeen): void;
  /** @returns what it was, and what became of the messages somebody asked by */
  end(): { readonly seen: InvocationSeen; readonly answers: readonly AnswerSeen[] };
}

/** Micro-batches of an invocation that are kept one by one. */
const MOST_MICRO_BATCHES = 32;

interface Asked {
  microBatch?: number;
  result?: ResultSeen;
}

/** @param now milliseconds since 1970 */
function createOngoingInvocation(
  number: number,
  { records, closedBecause }: Batch,
  batchSize: number,
  now: () => number,
): OngoingInvocation {
  const at = now();
  const own = new Map<string, Purpose>();
  const sentAt = new Map<string, number>();
  const asked = new Map<string, Asked>();
  for (const record of records) {
    const purpose = purposeOf(record);
    if (purpose !== undefined) own.set(record.messageId, purpose);
    if (purpose === 'ask') asked.set(record.messageId, {});
    sentAt.set(record.messageId, Number(record.attributes.SentTimestamp));
  }
  const microBatches: MicroBatchSeen[] = [];
  const counts = { decodeMs: 0, writeMs: 0, answered: 0, errors: 0, retried: 0, runs: 0, rows: 0, paddedRows: 0 };
  const sentAtOf = (messageId: string): number => sentAt.get(messageId) ?? at;

  return {
    number,
    purposeOf: (messageId) => own.get(messageId),
    sentAt: sentAtOf,
    microBatch(report, indices) {
      counts.runs += 1;
      counts.rows += report.rows;
      counts.paddedRows += report.paddedRows;
      if (microBatches.length === MOST_MICRO_BATCHES) return;
      microBatches.push(report);
      if (asked.size === 0) return;
      for (const index of indices()) {
        const one = asked.get(records[index]?.messageId ?? '');
        if (one !== undefined) one.microBatch ??= microBatches.length - 1;
      }
    },
    decoded: (ms) => {
      counts.decodeMs += ms;
    },
    written: (ms) => {
      counts.writeMs += ms;
    },
    outcomes(outcomes) {
      for (const outcome of outcomes) {
        if (outcome.status === 'retry') counts.retried += 1;
        else {
          counts.answered += 1;
          counts.errors += outcome.failures.length;
        }
      }
    },
    answered(result) {
      const one = asked.get(result.messageId);
      if (one !== undefined) one.result = result;
    },
    end() {
      const oldest = records.reduce((least, { messageId }) => Math.min(least, sentAtOf(messageId)), at);
      const seen: InvocationSeen = {
        number,
        at,
        records: records.length,
        batchSize,
        closedBecause,
        waitedMs: at - oldest,
        durationMs: now() - at,
        cameBefore: records.filter(cameBefore).length,
        ...counts,
        microBatches,
      };
      const answers = [...asked].map(([messageId, { result, microBatch }]) => ({
        messageId,
        result,
        waitedMs: at - sentAtOf(messageId),
        answeredMs: result === undefined ? undefined : result.at - sentAtOf(messageId),
        invocation: seen,
        microBatch,
      }));
      return { seen, answers };
    },
  };
}

function cameBefore({ attributes }: MessageRecord): boolean {
  return Number(attributes.ApproximateReceiveCount) > 1;
}

/** What happened, second by second. */
interface Timeline {
  sent(messages: number): void;
  /** A message was answered so long after it was sent. */
  answered(ms: number): void;
  ended(invocation: InvocationSeen): void;
  /** The last seconds that are over, the newest last. */
  all(): readonly SecondSeen[];
  /** Those that have ended since this was called last. */
  takeNew(): readonly SecondSeen[];
}

/** Seconds that are kept: five minutes. */
export const SECONDS_KEPT = 300;
/** Times to answer that a second's percentiles are taken of; of more, a random choice. */
const MOST_TIMES = 512;

type Counts = { -readonly [name in Exclude<keyof SecondSeen, 'at' | 'p50Ms' | 'p99Ms'>]: number };

/** @param now milliseconds since 1970. @default the system's */
export function createTimeline(now: () => number = Date.now): Timeline {
  const over: SecondSeen[] = [];
  let at = secondOf(now());
  let counts = nothing();
  let times: number[] = [];
  let timesSeen = 0;
  let untaken = 0;

  const close = (): void => {
    times.sort((one, other) => one - other);
    over.push({ at, ...counts, p50Ms: quantile(times, 0.5), p99Ms: quantile(times, 0.99) });
    if (over.length > SECONDS_KEPT) over.shift();
    untaken = Math.min(untaken + 1, SECONDS_KEPT);
    at += 1;
    counts = nothing();
    times = [];
    timesSeen = 0;
  };
  const advance = (): void => {
    const second = secondOf(now());
    if (second - at > SECONDS_KEPT) at = second - SECONDS_KEPT;
    while (at < second) close();
  };
  return {
    sent(messages) {
      advance();
      counts.sent += messages;
    },
    answered(ms) {
      advance();
      timesSeen += 1;
      if (times.length < MOST_TIMES) times.push(ms);
      else {
        const index = Math.floor(Math.random() * timesSeen);
        if (index < MOST_TIMES) times[index] = ms;
      }
    },
    ended({ records, batchSize, answered, errors, retried, rows, paddedRows, runs }) {
      advance();
      const more = {
        answered,
        errors,
        retried,
        records,
        rows,
        paddedRows,
        runs,
        invocations: 1,
        room: batchSize,
        sent: 0,
      };
      for (const name of Object.keys(counts) as (keyof Counts)[]) counts[name] += more[name];
    },
    all() {
      advance();
      return [...over];
    },
    takeNew() {
      advance();
      const taken = untaken === 0 ? [] : over.slice(-untaken);
      untaken = 0;
      return taken;
    },
  };
}

function secondOf(ms: number): number {
  return Math.floor(ms / 1000);
}

function nothing(): Counts {
  return {
    sent: 0,
    answered: 0,
    errors: 0,
    retried: 0,
    invocations: 0,
    records: 0,
    room: 0,
    rows: 0,
    paddedRows: 0,
    runs: 0,
  };
}

/** @param sorted ascending */
function quantile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
}

/** The newest of what comes, so many at the most. */
interface Newest<T> {
  add(one: T): void;
  /** The newest last. */
  all(): readonly T[];
  /** Those that came since this was called last, so many of the newest at the most. */
  takeNew(most: number): readonly T[];
}

export function createNewest<T>(capacity: number): Newest<T> {
  const kept: T[] = [];
  let isNew = 0;
  return {
    add(one) {
      kept.push(one);
      if (kept.length > capacity) kept.shift();
      isNew = Math.min(isNew + 1, capacity);
    },
    all: () => [...kept],
    takeNew(most) {
      const taken = isNew === 0 ? [] : kept.slice(-Math.min(isNew, most));
      isNew = 0;
      return taken;
    },
  };
}

/** Characters of a result that the page is given. */
const MOST_BODY_CHARACTERS = 16_384;

/** An error's first keys. */
const ERROR = /^\{"message_id":"[^"]*"(?:,"id":"(?:[^"\\]|\\.)*")?,"code":"/;
/** Those of one among the answers to a packed message: within a JSON string its quotes would be escaped. */
const ERROR_AMONG_OTHERS = new RegExp(`[[,]${ERROR.source.slice(1)}`);

/** Whether a result is an error, or holds one. */
function isErrorBody(body: string): boolean {
  return (body.startsWith('[') ? ERROR_AMONG_OTHERS : ERROR).test(body);
}

function resultSeen(
  { messageId, body }: Result,
  how: Pick<ResultSeen, 'at' | 'invocation' | 'isError' | 'isLoad'>,
): ResultSeen {
  return { messageId, body: body.slice(0, MOST_BODY_CHARACTERS).toWellFormed(), characters: body.length, ...how };
}

interface Writers {
  readonly own: ResultWriter;
  readonly others: ResultWriter;
}

/** Writes some results through a writer of their own. Verdicts align with `results` by index. */
async function writeApart(
  results: readonly Result[],
  isOwn: (result: Result) => boolean,
  writers: Writers,
  signal: AbortSignal,
): Promise<readonly WriteVerdict[]> {
  const own = results.filter(isOwn);
  if (own.length === 0) return writers.others.write(results, signal);
  if (own.length === results.length) return writers.own.write(results, signal);
  const others = results.filter((result) => !isOwn(result));
  const [ofOwn, ofOthers] = await Promise.all([writers.own.write(own, signal), writers.others.write(others, signal)]);
  const verdicts = new Map<Result, WriteVerdict | undefined>([
    ...own.map((result, index) => [result, ofOwn[index]] as const),
    ...others.map((result, index) => [result, ofOthers[index]] as const),
  ]);
  return results.map((result) => verdicts.get(result) ?? failure('WRITE_FAILED', 'expected a verdict, got none'));
}

/** Why the page sent a message: somebody asked, or as load. */
type Purpose = 'ask' | 'load';

/** What marks a message that the page sent, so that its result goes to the page and not to whoever receives results. */
const ATTRIBUTE = 'batchscore-page';

export function ownAttributes(purpose: Purpose): Record<string, MessageAttributeValue> {
  return { [ATTRIBUTE]: { DataType: 'String', StringValue: purpose } };
}

/** Undefined for everybody else's messages. */
function purposeOf({ messageAttributes }: MessageRecord): Purpose | undefined {
  const purpose = messageAttributes[ATTRIBUTE]?.stringValue;
  return purpose === 'ask' || purpose === 'load' ? purpose : undefined;
}

/** A host's telemetry, of which another is told as well. Only the host's own opens and closes invocations. */
export function alsoTell(host: Telemetry, other: Telemetry): Telemetry {
  return {
    ...host,
    outcomes(outcomes, records) {
      host.outcomes(outcomes, records);
      other.outcomes(outcomes, records);
    },
    observer: {
      ...host.observer,
      microBatch(report, records) {
        host.observer.microBatch(report, records);
        other.observer.microBatch(report, records);
      },
      decoded(ms) {
        host.observer.decoded(ms);
        other.observer.decoded(ms);
      },
      written(ms) {
        host.observer.written(ms);
        other.observer.written(ms);
      },
    },
  };
}
