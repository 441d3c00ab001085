import { AsyncLocalStorage } from 'node:async_hooks';
import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import type { Telemetry } from '../../lambda/aws/telemetry.ts';
import { failure, isFailure } from '../../lambda/core/failure.ts';
import type { CloseReason, MicroBatchReport } from '../../lambda/core/observer.ts';
import type { Outcome, Result, ResultWriter, WriteStatus } from '../../lambda/core/record.ts';
import { BATCH_ENDED } from '../local/gather.ts';
import type { Around, Batch } from '../local/localMapping.ts';
import type { InvocationSeen, ResultSeen, SecondSeen, State } from './wire.ts';

export type Monitor = ReturnType<typeof createMonitor>;

const INVOCATIONS_KEPT = 10;
const RESULTS_SHOWN = 6;
/** Number of results that can be searched. */
const RESULTS_KEPT = 500;
const AWAITED_KEPT = 16;

/** Creates a monitor of the function's work. It keeps a limited number of the newest events. */
export function createMonitor(now: () => number = Date.now) {
  const current = new AsyncLocalStorage<OngoingInvocation>();
  const timeline = createTimeline(now);
  const [invocations, results, errors]: [InvocationSeen[], ResultSeen[], ResultSeen[]] = [[], [], []];
  const totals = {
    answered: 0,
    errors: {} as Record<string, number>,
    retries: {} as Record<string, number>,
    models: {} as Record<string, { rows: number; runs: number }>,
  };
  /** Micro-batches of awaited messages. They may be reported after the result. */
  const ran = new Map<string, ResultSeen['microBatch']>();
  let numbered = 0;

  const written = (invocation: OngoingInvocation, taken: readonly Result[]): void => {
    const at = now();
    for (const [index, result] of taken.entries()) {
      const { messageId } = result;
      const answeredMs = at - invocation.sentAt(messageId);
      timeline.answered(answeredMs);
      const isError = isErrorBody(result.body);
      const isKept = isError || index >= taken.length - RESULTS_KEPT;
      if (!isKept && invocation.purposeOf(messageId) !== 'ask') continue;
      const seen = resultSeen(result, { at, answeredMs, invocation: invocation.number, isError });
      keepNewest(results, seen, RESULTS_KEPT);
      if (isError) keepNewest(errors, seen, RESULTS_SHOWN);
    }
  };
  const count = (outcomes: readonly Outcome[]): void => {
    for (const outcome of outcomes) {
      if (outcome.status === 'answered') totals.answered += 1;
      if (outcome.status === 'retry') addOne(totals.retries, outcome.failure.code);
      else for (const { code } of outcome.failures) addOne(totals.errors, code);
    }
  };

  return {
    /** Returns telemetry that also reports to the monitor. */
    alsoTelling: (host: Telemetry): Telemetry => ({
      ...host,
      outcomes(outcomes, records) {
        host.outcomes(outcomes, records);
        count(outcomes);
        current.getStore()?.outcomes(outcomes);
      },
      observer: {
        ...host.observer,
        microBatch(report, records) {
          host.observer.microBatch(report, records);
          const name = `${report.model}/${report.version}`;
          const { rows, runs } = totals.models[name] ?? { rows: 0, runs: 0 };
          totals.models[name] = { rows: rows + report.rows, runs: runs + 1 };
          const asked = current.getStore()?.microBatch(report, records) ?? [];
          const closedBecause = MICRO_BATCH_CLOSED[report.closedBecause];
          for (const messageId of asked) ran.set(messageId, { ...report, closedBecause });
          const [oldest] = ran.size > AWAITED_KEPT ? ran.keys() : [];
          if (oldest !== undefined) ran.delete(oldest);
        },
      },
    }),
    /** Returns a wrapper for a mapping's invocations. @param batchSize batch size of the mapping */
    around: (batchSize: number) => async (batch: Batch, run: Parameters<Around>[1]) => {
      numbered += 1;
      const invocation = createOngoingInvocation(numbered, batch, batchSize, now);
      const status = await current.run(invocation, run);
      const ended = invocation.end();
      timeline.ended(ended);
      keepNewest(invocations, ended, INVOCATIONS_KEPT);
      return status;
    },
    /** Writes the results of messages. Results of messages from the page go only to the page. */
    through: (writer: ResultWriter): ResultWriter => ({
      async write(all, signal) {
        const invocation = current.getStore();
        if (invocation === undefined) return writer.write(all, signal);
        const others = all.filter(({ messageId }) => invocation.purposeOf(messageId) === undefined);
        const statuses = others.length === 0 ? [] : await writer.write(others, signal);
        const statusOf = new Map(others.map((result, index) => [result, statuses[index]]));
        const verdicts = all.map((result): WriteStatus => {
          if (!statusOf.has(result)) return { written: true };
          return statusOf.get(result) ?? failure('WRITE_FAILED', 'expected a status, got none');
        });
        written(
          invocation,
          all.filter((_, index) => !isFailure(verdicts[index])),
        );
        return verdicts;
      },
      writtenAsOne: writer.writtenAsOne,
    }),
    /** Returns the kept results whose message ID begins with a text, the newest last. */
    find(messageId: string): readonly ResultSeen[] {
      const found = results.filter((one) => one.messageId.startsWith(messageId)).slice(-RESULTS_SHOWN);
      return found.map((one) => ({ ...one, microBatch: ran.get(one.messageId) }));
    },
    seen(): Pick<State, 'totals' | 'seconds' | 'invocations' | 'results'> {
      const newest = new Set([...errors, ...results.slice(-RESULTS_SHOWN)]);
      const shown = [...newest].sort((one, other) => one.at - other.at);
      return { totals, seconds: timeline.all(), invocations, results: shown };
    },
  };
}

/** Adds an item to a list with the newest item last, and removes the oldest ones. */
function keepNewest<T>(list: T[], one: T, max: number): void {
  list.push(one);
  if (list.length > max) list.shift();
}

function addOne(counts: Record<string, number>, code: string): void {
  counts[code] = (counts[code] ?? 0) + 1;
}

/** Reasons why a micro-batch ran, as text for users. */
export const MICRO_BATCH_CLOSED: Readonly<Record<CloseReason, string>> = {
  full: 'full',
  budget: 'element budget reached',
  padding: 'another run costs less than the padding',
  dearer: 'dearer together',
  end: 'end of the batch that SQS handed over',
};

type OngoingInvocation = ReturnType<typeof createOngoingInvocation>;

/** @param now returns milliseconds since 1970 */
function createOngoingInvocation(
  number: number,
  { records, endedBecause }: Batch,
  batchSize: number,
  now: () => number,
) {
  const at = now();
  const byId = new Map(records.map((record) => [record.messageId, record]));
  const purposeOf = (messageId: string) => byId.get(messageId)?.messageAttributes[ATTRIBUTE]?.stringValue;
  const sentAt = (messageId: string): number => Number(byId.get(messageId)?.attributes.SentTimestamp ?? at);
  const asked = new Set([...byId.keys()].filter((messageId) => purposeOf(messageId) === 'ask'));
  const counts = { answered: 0, errors: 0, retried: 0, runs: 0, rows: 0, paddedRows: 0 };

  return {
    number,
    /** Returns undefined for messages that the page did not send. */
    purposeOf,
    /** Returns the time when a message was sent, in milliseconds since 1970. */
    sentAt,
    /** @returns IDs of the messages that the page awaits, of those in the micro-batch */
    microBatch(report: MicroBatchReport, indices: () => readonly number[]): readonly string[] {
      counts.runs += 1;
      counts.rows += report.rows;
      counts.paddedRows += report.paddedRows;
      if (asked.size === 0) return [];
      return indices().flatMap((index) => [...asked].filter((messageId) => messageId === records[index]?.messageId));
    },
    outcomes(outcomes: readonly Outcome[]): void {
      for (const outcome of outcomes) {
        if (outcome.status === 'retry') counts.retried += 1;
        else {
          counts.answered += 1;
          counts.errors += outcome.failures.length;
        }
      }
    },
    end(): InvocationSeen {
      const oldest = records.reduce((min, { messageId }) => Math.min(min, sentAt(messageId)), at);
      return {
        number,
        at,
        records: records.length,
        batchSize,
        endedBecause: BATCH_ENDED[endedBecause],
        waitedMs: at - oldest,
        durationMs: now() - at,
        ...counts,
      };
    },
  };
}

/** Number of seconds to keep: five minutes. */
export const SECONDS_KEPT = 300;
const COUNTS = { answered: 0, records: 0, rows: 0, paddedRows: 0 };
const NOTHING = { ...COUNTS, room: 0 };

/** Creates counts for each second. @param now returns milliseconds since 1970. @default the system clock */
export function createTimeline(now: () => number = Date.now) {
  const over: SecondSeen[] = [];
  let at = Math.floor(now() / 1000);
  let counts = { ...NOTHING };
  let times: number[] = [];

  const advance = (): void => {
    const second = Math.floor(now() / 1000);
    if (second - at > SECONDS_KEPT) at = second - SECONDS_KEPT;
    for (; at < second; at++) {
      times.sort((one, other) => one - other);
      keepNewest(over, { at, ...counts, p50Ms: quantile(times, 0.5), p99Ms: quantile(times, 0.99) }, SECONDS_KEPT);
      counts = { ...NOTHING };
      times = [];
    }
  };
  return {
    /** Records a message that was answered `ms` after it was sent. */
    answered(ms: number): void {
      advance();
      times.push(ms);
    },
    ended(invocation: InvocationSeen): void {
      advance();
      counts.room += invocation.batchSize;
      for (const name of Object.keys(COUNTS) as (keyof typeof COUNTS)[]) counts[name] += invocation[name];
    },
    /** Returns the complete seconds, the newest last. */
    all(): readonly SecondSeen[] {
      advance();
      return over;
    },
  };
}

/** @param sorted values in ascending order */
function quantile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
}

/** Maximum number of characters of a result that the page receives. */
const MAX_BODY_CHARACTERS = 16_384;

const ERROR = /^\{"message_id":"[^"]*"(?:,"id":"(?:[^"\\]|\\.)*")?,"code":"/;
/**
 * Start of an error in the results of a packed message. Its quotes cannot match within a JSON string, because they are
 * escaped there.
 */
const ERROR_AMONG_OTHERS = new RegExp(`[[,]${ERROR.source.slice(1)}`);

/** Returns true if a result is or contains an error. */
function isErrorBody(body: string): boolean {
  return (body.startsWith('[') ? ERROR_AMONG_OTHERS : ERROR).test(body);
}

function resultSeen({ messageId, body }: Result, how: Omit<ResultSeen, keyof Result | 'characters'>): ResultSeen {
  // A slice would keep all of the text in memory, and the copy replaces half of a surrogate pair.
  const shown = body.length > MAX_BODY_CHARACTERS ? Buffer.from(body.slice(0, MAX_BODY_CHARACTERS)).toString() : body;
  return { messageId, body: shown, characters: body.length, ...how };
}

/** Purpose of a message from the page: `ask` awaits its answer, and `fill` fills batches. */
type Purpose = 'ask' | 'fill';

/** Attribute of messages from the page. Their results go to the page instead of the result stores. */
const ATTRIBUTE = 'batchscore-page';

export function ownAttributes(purpose: Purpose): Record<string, MessageAttributeValue> {
  return { [ATTRIBUTE]: { DataType: 'String', StringValue: purpose } };
}
