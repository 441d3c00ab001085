import { AsyncLocalStorage } from 'node:async_hooks';
import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import type { Announcement } from '../../../lambda/aws/announce.ts';
import type { Telemetry } from '../../../lambda/aws/telemetry.ts';
import { failure, isFailure } from '../../../lambda/core/failure.ts';
import type { CloseReason, MicroBatchReport } from '../../../lambda/core/observer.ts';
import type { MessageRecord, Outcome, Result, ResultWriter, WriteStatus } from '../../../lambda/core/record.ts';
import { type Around, BATCH_ENDED, type Batch } from '../localMapping.ts';
import type { AnswerSeen, EventSeen, InvocationSeen, MicroBatchSeen, ResultSeen, SecondSeen, State } from './wire.ts';

/** Sees what the function does with messages, and keeps the newest of it: bounded, whatever comes. */
export interface Monitor {
  /** A host's telemetry, that tells the monitor too. */
  alsoTelling(host: Telemetry): Telemetry;
  /** For the invocations of a mapping. @param batchSize of the mapping */
  around(batchSize: number): Around;
  /** What results of messages are written through. */
  through(writer: ResultWriter): ResultWriter;
  /** From now on results of messages that the page sent are written by `ownWriter`, and it is told of its answers. */
  connect(ownWriter: ResultWriter, onAnswer: (answer: AnswerSeen) => void): void;
  sent(messages: number): void;
  /** Others are told of these. */
  announced(announcements: readonly Announcement[]): void;
  seen(): Pick<State, 'totals' | 'seconds' | 'invocations' | 'results' | 'errors' | 'events'>;
}

const INVOCATIONS_KEPT = 10;
const RESULTS_KEPT = 6;

export function createMonitor(now: () => number = Date.now): Monitor {
  const current = new AsyncLocalStorage<OngoingInvocation>();
  const timeline = createTimeline(now);
  const kept: { invocations: InvocationSeen[]; results: ResultSeen[]; errors: ResultSeen[]; events: EventSeen[] } = {
    invocations: [],
    results: [],
    errors: [],
    events: [],
  };
  const errors: Record<string, number> = {};
  const retries: Record<string, number> = {};
  const totals = { messages: 0, answered: 0, errors, retries };
  let numbered = 0;
  let ownWriter: ResultWriter | undefined;
  let tellAnswer: (answer: AnswerSeen) => void = () => {};

  const written = (invocation: OngoingInvocation, taken: readonly Result[]): void => {
    const at = now();
    for (const [index, result] of taken.entries()) {
      timeline.answered(at - invocation.sentAt(result.messageId));
      const purpose = invocation.purposeOf(result.messageId);
      const isError = isErrorBody(result.body);
      const isNewest = index >= taken.length - RESULTS_KEPT;
      if (!isError && !isNewest && purpose !== 'ask') continue;
      const seen = resultSeen(result, { at, invocation: invocation.number, isError, isLoad: purpose === 'load' });
      keepNewest(kept.results, seen, RESULTS_KEPT);
      if (isError) keepNewest(kept.errors, seen, RESULTS_KEPT);
      invocation.answered(seen);
    }
  };
  const count = (outcomes: readonly Outcome[]): void => {
    totals.messages += outcomes.length;
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
          current.getStore()?.decoded(ms);
        },
        transformed(report) {
          host.observer.transformed?.(report);
          current.getStore()?.transformed(report.transformMs);
        },
        written(ms) {
          host.observer.written(ms);
          current.getStore()?.written(ms);
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
        const isOwn = ({ messageId }: Result): boolean => invocation.purposeOf(messageId) !== undefined;
        const statuses = await writeApart(all, isOwn, { own: ownWriter ?? writer, others: writer }, signal);
        written(
          invocation,
          all.filter((_, index) => !isFailure(statuses[index])),
        );
        return statuses;
      },
      writtenAsOne: writer.writtenAsOne,
    }),
    connect(writer, onAnswer) {
      ownWriter = writer;
      tellAnswer = onAnswer;
    },
    sent: timeline.sent,
    announced(announcements) {
      for (const one of announcements) {
        const what = one.event === 'job-ended' ? `${one.state}: ${one.input}` : `${one.code}: message ${one.messageId}`;
        const title = `${one.event}, ${what}`;
        keepNewest(kept.events, { at: now(), title, body: JSON.stringify(one) }, RESULTS_KEPT);
      }
    },
    seen: () => ({ totals, seconds: timeline.all(), ...kept }),
  };
}

/** Of a list whose newest is the last. */
function keepNewest<T>(list: T[], one: T, max: number): void {
  list.push(one);
  if (list.length > max) list.shift();
}

function addOne(counts: Record<string, number>, code: string): void {
  counts[code] = (counts[code] ?? 0) + 1;
}

/** Why a micro-batch was run, as a person reads it. */
export const MICRO_BATCH_CLOSED: Readonly<Record<CloseReason, string>> = {
  full: 'full',
  budget: 'element budget reached',
  padding: 'another run costs less than the padding',
  dearer: 'dearer together',
  end: 'end of the batch that SQS handed over',
};

/** Micro-batches of an invocation that are kept one by one. */
const MAX_MICRO_BATCHES = 32;

/** An invocation while it goes on. */
type OngoingInvocation = ReturnType<typeof createOngoingInvocation>;

/** @param now milliseconds since 1970 */
function createOngoingInvocation(
  number: number,
  { records, endedBecause }: Batch,
  batchSize: number,
  now: () => number,
) {
  const at = now();
  const own = new Map<string, Purpose>();
  const sentAt = new Map<string, number>();
  const asked = new Map<string, { microBatch?: number; result?: ResultSeen }>();
  for (const record of records) {
    const purpose = purposeOf(record);
    if (purpose !== undefined) own.set(record.messageId, purpose);
    if (purpose === 'ask') asked.set(record.messageId, {});
    sentAt.set(record.messageId, Number(record.attributes.SentTimestamp));
  }
  const microBatches: MicroBatchSeen[] = [];
  const nothing = { answered: 0, errors: 0, retried: 0, runs: 0, rows: 0, paddedRows: 0 };
  const counts = { decodeMs: 0, transformMs: 0, writeMs: 0, ...nothing };
  /** When a message was sent, in milliseconds since 1970. */
  const sentAtOf = (messageId: string): number => sentAt.get(messageId) ?? at;

  return {
    number,
    /** Undefined for messages that the page did not send. */
    purposeOf: (messageId: string) => own.get(messageId),
    sentAt: sentAtOf,
    microBatch(report: MicroBatchReport, indices: () => readonly number[]): void {
      counts.runs += 1;
      counts.rows += report.rows;
      counts.paddedRows += report.paddedRows;
      if (microBatches.length === MAX_MICRO_BATCHES) return;
      microBatches.push({ ...report, closedBecause: MICRO_BATCH_CLOSED[report.closedBecause] });
      if (asked.size === 0) return;
      for (const index of indices()) {
        const one = asked.get(records[index]?.messageId ?? '');
        if (one !== undefined) one.microBatch ??= microBatches.length - 1;
      }
    },
    decoded(ms: number): void {
      counts.decodeMs += ms;
    },
    transformed(ms: number): void {
      counts.transformMs += ms;
    },
    written(ms: number): void {
      counts.writeMs += ms;
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
    /** @returns what it was, and what became of the messages somebody asked by */
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

/** Seconds that are kept: five minutes. */
export const SECONDS_KEPT = 300;
const COUNTS = { answered: 0, errors: 0, retried: 0, records: 0, rows: 0, paddedRows: 0, runs: 0 };
const NOTHING = { ...COUNTS, sent: 0, invocations: 0, room: 0 };

/** What happened, second by second. @param now milliseconds since 1970. @default the system's */
export function createTimeline(now: () => number = Date.now) {
  const over: SecondSeen[] = [];
  let at = Math.floor(now() / 1000);
  let counts = { ...NOTHING };
  let times: number[] = [];

  const close = (): void => {
    times.sort((one, other) => one - other);
    keepNewest(over, { at, ...counts, p50Ms: quantile(times, 0.5), p99Ms: quantile(times, 0.99) }, SECONDS_KEPT);
    at += 1;
    counts = { ...NOTHING };
    times = [];
  };
  const advance = (): void => {
    const second = Math.floor(now() / 1000);
    if (second - at > SECONDS_KEPT) at = second - SECONDS_KEPT;
    while (at < second) close();
  };
  return {
    sent(messages: number): void {
      advance();
      counts.sent += messages;
    },
    /** A message was answered so long after it was sent. */
    answered(ms: number): void {
      advance();
      times.push(ms);
    },
    ended(invocation: InvocationSeen): void {
      advance();
      counts.invocations += 1;
      counts.room += invocation.batchSize;
      for (const name of Object.keys(COUNTS) as (keyof typeof COUNTS)[]) counts[name] += invocation[name];
    },
    /** The last seconds that are over, the newest last. */
    all(): readonly SecondSeen[] {
      advance();
      return over;
    },
  };
}

/** @param sorted ascending */
function quantile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
}

/** Characters of a result that the page is given. */
const MAX_BODY_CHARACTERS = 16_384;

/** An error's first keys. */
const ERROR = /^\{"message_id":"[^"]*"(?:,"id":"(?:[^"\\]|\\.)*")?,"code":"/;
/** Those of one among the answers to a packed message: within a JSON string its quotes would be escaped. */
const ERROR_AMONG_OTHERS = new RegExp(`[[,]${ERROR.source.slice(1)}`);

/** Returns true if a result is an error, or holds one. */
function isErrorBody(body: string): boolean {
  return (body.startsWith('[') ? ERROR_AMONG_OTHERS : ERROR).test(body);
}

function resultSeen(
  { messageId, body }: Result,
  how: Pick<ResultSeen, 'at' | 'invocation' | 'isError' | 'isLoad'>,
): ResultSeen {
  return { messageId, body: body.slice(0, MAX_BODY_CHARACTERS).toWellFormed(), characters: body.length, ...how };
}

/** Writes some results through a writer of their own. Statuses align with `results` by index. */
async function writeApart(
  results: readonly Result[],
  isOwn: (result: Result) => boolean,
  writers: { readonly own: ResultWriter; readonly others: ResultWriter },
  signal: AbortSignal,
): Promise<readonly WriteStatus[]> {
  const some = [results.filter(isOwn), results.filter((result) => !isOwn(result))] as const;
  const write = async (writer: ResultWriter, all: readonly Result[]): Promise<[Result, WriteStatus | undefined][]> => {
    const statuses = all.length === 0 ? [] : await writer.write(all, signal);
    return all.map((result, index) => [result, statuses[index]]);
  };
  const written = await Promise.all([write(writers.own, some[0]), write(writers.others, some[1])]);
  const statuses = new Map(written.flat());
  return results.map((result) => statuses.get(result) ?? failure('WRITE_FAILED', 'expected a status, got none'));
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
