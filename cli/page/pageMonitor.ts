import { AsyncLocalStorage } from 'node:async_hooks';
import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import type { Telemetry } from '../../lambda/aws/telemetry.ts';
import { failure, isFailure } from '../../lambda/core/failure.ts';
import type { Outcome, Result, ResultWriter, WriteStatus } from '../../lambda/core/record.ts';
import { BATCH_ENDED } from '../local/gather.ts';
import type { Around, Batch } from '../local/localMapping.ts';
import type { InvocationSeen, ResultSeen, SecondSeen, State } from './wire.ts';

export type Monitor = ReturnType<typeof createMonitor>;

const INVOCATIONS_KEPT = 10;
const RESULTS_SHOWN = 6;
/** Number of results among which the page finds the one that it awaits. */
const RESULTS_KEPT = 500;

/** Creates a monitor of the function's work. It keeps a limited number of the newest events. */
export function createMonitor(now: () => number = Date.now) {
  const current = new AsyncLocalStorage<OngoingInvocation>();
  const timeline = createTimeline(now);
  const [invocations, results, errors]: [InvocationSeen[], ResultSeen[], ResultSeen[]] = [[], [], []];
  const totals = {
    answered: 0,
    errors: {} as Record<string, number>,
    retries: {} as Record<string, number>,
  };
  let numbered = 0;

  const written = (invocation: OngoingInvocation, taken: readonly Result[]): void => {
    const at = now();
    for (const [index, result] of taken.entries()) {
      const { messageId } = result;
      const answeredMs = at - invocation.sentAt(messageId);
      timeline.answered(answeredMs);
      const isError = isErrorBody(result.body);
      const isKept = isError || index >= taken.length - RESULTS_SHOWN || invocation.isOwn(messageId);
      if (!isKept) continue;
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
        const others = all.filter(({ messageId }) => !invocation.isOwn(messageId));
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
    find: (messageId: string): ResultSeen | undefined => results.findLast((one) => one.messageId === messageId),
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
  const sentAt = (messageId: string): number => Number(byId.get(messageId)?.attributes.SentTimestamp ?? at);
  const counts = { errors: 0, retried: 0 };
  return {
    number,
    /** Returns true for messages that the page sent. */
    isOwn: (messageId: string): boolean => byId.get(messageId)?.messageAttributes[ATTRIBUTE] !== undefined,
    /** Returns the time when a message was sent, in milliseconds since 1970. */
    sentAt,
    outcomes(outcomes: readonly Outcome[]): void {
      for (const outcome of outcomes) {
        if (outcome.status === 'retry') counts.retried += 1;
        else counts.errors += outcome.failures.length;
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
const NOTHING = { answered: 0, records: 0, room: 0 };

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
      counts.answered += 1;
      times.push(ms);
    },
    ended({ records, batchSize }: InvocationSeen): void {
      advance();
      counts.records += records;
      counts.room += batchSize;
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

/** Attribute of messages from the page. Their results go to the page instead of the result stores. */
const ATTRIBUTE = 'batchscore-page';
export const OWN_ATTRIBUTES: Record<string, MessageAttributeValue> = {
  [ATTRIBUTE]: { DataType: 'String', StringValue: 'sent' },
};
