import { AsyncLocalStorage } from 'node:async_hooks';
import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import type { Telemetry } from '../../lambda/aws/telemetry.ts';
import { failure, isFailure } from '../../lambda/core/failure.ts';
import type { CloseReason, MicroBatchReport } from '../../lambda/core/observer.ts';
import type { MessageRecord, Outcome, Result, ResultWriter, WriteStatus } from '../../lambda/core/record.ts';
import { type Around, BATCH_ENDED, type Batch } from '../local/localMapping.ts';
import type { AnswerSeen, InvocationSeen, ResultSeen, SecondSeen, State } from './wire.ts';

/** Monitor of the function's work. It keeps a limited number of the newest events. */
export interface Monitor {
  /** Returns telemetry that also reports to the monitor. */
  alsoTelling(host: Telemetry): Telemetry;
  /** Returns a wrapper for a mapping's invocations. @param batchSize batch size of the mapping */
  around(batchSize: number): Around;
  /** Writes the results of messages. Results of messages from the page go only to the page. */
  through(writer: ResultWriter): ResultWriter;
  /** Registers a listener for the answers to messages from the page. */
  onAnswer(listener: (answer: AnswerSeen) => void): void;
  seen(): Pick<State, 'totals' | 'seconds' | 'invocations' | 'results' | 'errors'>;
}

const INVOCATIONS_KEPT = 10;
const RESULTS_KEPT = 6;

export function createMonitor(now: () => number = Date.now): Monitor {
  const current = new AsyncLocalStorage<OngoingInvocation>();
  const timeline = createTimeline(now);
  const kept: { invocations: InvocationSeen[]; results: ResultSeen[]; errors: ResultSeen[] } = {
    invocations: [],
    results: [],
    errors: [],
  };
  const errors: Record<string, number> = {};
  const retries: Record<string, number> = {};
  const totals = { answered: 0, errors, retries };
  let numbered = 0;
  let tellAnswer: (answer: AnswerSeen) => void = () => {};

  const written = (invocation: OngoingInvocation, taken: readonly Result[]): void => {
    const at = now();
    for (const [index, result] of taken.entries()) {
      timeline.answered(at - invocation.sentAt(result.messageId));
      const isError = isErrorBody(result.body);
      const isNewest = index >= taken.length - RESULTS_KEPT;
      if (!isError && !isNewest && invocation.purposeOf(result.messageId) !== 'ask') continue;
      const seen = resultSeen(result, { at, invocation: invocation.number, isError });
      keepNewest(kept.results, seen, RESULTS_KEPT);
      if (isError) keepNewest(kept.errors, seen, RESULTS_KEPT);
      invocation.answered(seen);
    }
  };
  const count = (outcomes: readonly Outcome[]): void => {
    for (const outcome of outcomes) {
      if (outcome.status === 'answered') totals.answered += 1;
      if (outcome.status === 'retry') addOne(retries, outcome.failure.code);
      else for (const { code } of outcome.failures) addOne(errors, code);
    }
  };

  return {
    alsoTelling: (host) => ({
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
          current.getStore()?.microBatch(report, records);
        },
        decoded(ms) {
          host.observer.decoded(ms);
          current.getStore()?.took('decode', ms);
        },
        written(ms) {
          host.observer.written(ms);
          current.getStore()?.took('write', ms);
        },
      },
    }),
    around: (batchSize) => async (batch, run) => {
      numbered += 1;
      const invocation = createOngoingInvocation(numbered, batch, batchSize, now);
      const status = await current.run(invocation, run);
      const { seen, answers } = invocation.end();
      timeline.ended(seen);
      keepNewest(kept.invocations, seen, INVOCATIONS_KEPT);
      for (const answer of answers) tellAnswer(answer);
      return status;
    },
    through: (writer) => ({
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
    onAnswer(listener) {
      tellAnswer = listener;
    },
    seen: () => ({ totals, seconds: timeline.all(), ...kept }),
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

type Asked = Partial<Pick<AnswerSeen, 'microBatch' | 'result'>>;

/** @param now returns milliseconds since 1970 */
function createOngoingInvocation(
  number: number,
  { records, endedBecause }: Batch,
  batchSize: number,
  now: () => number,
) {
  const at = now();
  const purposes = new Map(records.map((record) => [record.messageId, purposeOf(record)]));
  const sentAt = new Map(records.map((record) => [record.messageId, Number(record.attributes.SentTimestamp)]));
  const asked = new Map<string, { -readonly [Key in keyof Asked]: Asked[Key] }>();
  for (const [messageId, purpose] of purposes) if (purpose === 'ask') asked.set(messageId, {});
  const stages = { decode: 0, stack: 0, run: 0, encode: 0, write: 0 };
  const counts = { answered: 0, errors: 0, retried: 0, runs: 0, rows: 0, paddedRows: 0 };
  const sentAtOf = (messageId: string): number => sentAt.get(messageId) ?? at;

  return {
    number,
    /** Returns undefined for messages that the page did not send. */
    purposeOf: (messageId: string) => purposes.get(messageId),
    /** Returns the time when a message was sent, in milliseconds since 1970. */
    sentAt: sentAtOf,
    took(stage: keyof typeof stages, ms: number): void {
      stages[stage] += ms;
    },
    microBatch(report: MicroBatchReport, indices: () => readonly number[]): void {
      counts.runs += 1;
      counts.rows += report.rows;
      counts.paddedRows += report.paddedRows;
      stages.stack += report.stackMs;
      stages.run += report.runMs;
      stages.encode += report.encodeMs;
      if (asked.size === 0) return;
      for (const index of indices()) {
        const one = asked.get(records[index]?.messageId ?? '');
        if (one !== undefined)
          one.microBatch ??= { ...report, closedBecause: MICRO_BATCH_CLOSED[report.closedBecause] };
      }
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
    answered(result: ResultSeen): void {
      const one = asked.get(result.messageId);
      if (one !== undefined) one.result = result;
    },
    /** @returns the invocation, and the outcomes of the messages whose answers the page awaits */
    end(): { readonly seen: InvocationSeen; readonly answers: readonly AnswerSeen[] } {
      const oldest = records.reduce((min, { messageId }) => Math.min(min, sentAtOf(messageId)), at);
      const seen: InvocationSeen = {
        number,
        at,
        records: records.length,
        batchSize,
        endedBecause: BATCH_ENDED[endedBecause],
        waitedMs: at - oldest,
        durationMs: now() - at,
        cameBefore: records.filter(({ attributes }) => Number(attributes.ApproximateReceiveCount) > 1).length,
        ...counts,
        stages,
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

function resultSeen({ messageId, body }: Result, how: Pick<ResultSeen, 'at' | 'invocation' | 'isError'>): ResultSeen {
  return { messageId, body: body.slice(0, MAX_BODY_CHARACTERS).toWellFormed(), characters: body.length, ...how };
}

/** Purpose of a message from the page: `ask` awaits its answer, and `fill` fills batches. */
type Purpose = 'ask' | 'fill';

/** Attribute of messages from the page. Their results go to the page instead of the result stores. */
const ATTRIBUTE = 'batchscore-page';

export function ownAttributes(purpose: Purpose): Record<string, MessageAttributeValue> {
  return { [ATTRIBUTE]: { DataType: 'String', StringValue: purpose } };
}

/** Returns undefined for a message from another sender. */
function purposeOf({ messageAttributes }: MessageRecord): Purpose | undefined {
  const purpose = messageAttributes[ATTRIBUTE]?.stringValue;
  return purpose === 'ask' || purpose === 'fill' ? purpose : undefined;
}
