import type { Capture } from '../aws/capture.ts';
import { createMemoryBudget, waitOrAbort } from '../core/concurrency.ts';
import { encodeError, idInAnswer } from '../core/encode.ts';
import { type Failure, failure, isFailure, isTransient } from '../core/failure.ts';
import type { Observer } from '../core/observer.ts';
import {
  GRACE_MS,
  type MessageRecord,
  type Outcome,
  orderingGroup,
  RESULT_QUEUE_ATTRIBUTE,
  type Result,
  type ResultWriter,
  type TimeLimit,
  type WriteStatus,
} from '../core/record.ts';
import { type Answer, isHandedBack, type Reply } from '../core/replies.ts';
import type { ReplySink, ScoreBodies } from '../core/score.ts';

/** Dependencies of scoring records, from reading to acknowledging them. They live as long as the process. */
export interface ScoringDependencies {
  readonly score: ScoreBodies;
  readonly writer: ResultWriter;
  readonly limits: {
    /** Time before the deadline that is reserved for encoding and writing: see `deadlineMarginMs` in `settings.ts`. */
    readonly deadlineMarginMs: number;
    readonly maxAnswerCharacters: number;
    /** Maximum age of a message that is scored. @default any */
    readonly maxAgeSeconds?: number | undefined;
  };
  readonly observer: Observer;
  readonly now: () => number;
  /** Keeps samples. @default none are kept */
  readonly capture?: Capture | undefined;
}

/**
 * Scores records and writes one result per message ID.
 *
 * Outcomes align with `records` by index. A record is `answered` only after every store has taken its result;
 * everything else is `retry`. Never throws, and returns soon after `time.signal` aborts.
 */
export async function scoreRecords(
  records: readonly MessageRecord[],
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<Outcome[]> {
  const outcomes = new Array<Outcome | undefined>(records.length).fill(undefined);
  let unsettled = UNSETTLED;
  try {
    if (!time.signal.aborted) await waitOrAbort(scoreAndWrite(records, outcomes, deps, time), time.signal, GRACE_MS);
  } catch (error) {
    // A throw would lose the outcomes of other records.
    deps.observer.problem(error);
    unsettled = SCORING_THREW;
  }
  return outcomes.map((outcome) => outcome ?? (time.signal.aborted ? OUT_OF_TIME : unsettled));
}

async function scoreAndWrite(
  records: readonly MessageRecord[],
  outcomes: (Outcome | undefined)[],
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<void> {
  const results = createResults(records, outcomes, deps, time);
  const expired = expiredAnswers(records, deps.limits.maxAgeSeconds);
  await results.take(expired);
  const settled = new Set(expired.map(({ of }) => of));
  const left = settled.size === 0 ? records : records.filter((_, index) => !settled.has(index));
  const indexes = [...records.keys()].filter((index) => !settled.has(index));
  const bodies = left.map(({ messageId, body }) => ({ key: messageId, body }));
  const take: ReplySink = (replies) =>
    results.take(
      settled.size === 0 ? replies : replies.map((reply) => ({ ...reply, of: indexes[reply.of] as number })),
    );
  await deps.score(bodies, time, take, { observer: deps.observer });
  await results.finish();
}

/** Answers records that are too old to be scored. */
function expiredAnswers(records: readonly MessageRecord[], maxAgeSeconds: number | undefined): Answer[] {
  if (maxAgeSeconds === undefined) return [];
  const now = Date.now();
  return records.flatMap(({ messageId, attributes }, of) => {
    const seconds = Math.floor((now - Number(attributes.SentTimestamp)) / 1000);
    if (seconds <= maxAgeSeconds) return [];
    const failed = failure(
      'EXPIRED',
      `message: expected one sent in the last ${maxAgeSeconds} s, got one sent ${seconds} s ago; send it again if its ` +
        'scores are still of use, or raise maxAge of the deployment',
    );
    return { of, text: encodeError(messageId, undefined, failed), failures: [failed], requests: 1 };
  });
}

/** Outcome of records in progress when the signal aborts. Nothing more is written for them. */
const OUT_OF_TIME: Outcome = {
  status: 'retry',
  failure: failure(
    'DEADLINE',
    'expected the record to be settled before the deadline, it was not; raise the timeout, or lower the batch size',
  ),
};

/** Outcome of a record without any other: a missing status is a failure, never an answer. */
const UNSETTLED: Outcome = {
  status: 'retry',
  failure: failure('INTERNAL', 'expected every record to be settled; this one was not and is handed back'),
};

const SCORING_THREW: Outcome = { status: 'retry', failure: failure('INTERNAL', 'scoring the records threw') };

interface ResultsOut {
  /** Takes replies. Resolves when there is memory for more. Never throws. */
  take(replies: readonly Reply[]): Promise<void>;
  /** Ends the results. Resolves when all are written and their records have outcomes. */
  finish(): Promise<void>;
}

interface PendingWrite {
  readonly index: number;
  readonly request: string;
  readonly answer: Answer;
  readonly result: Result;
}

function createResults(
  records: readonly MessageRecord[],
  outcomes: (Outcome | undefined)[],
  deps: ScoringDependencies,
  time: TimeLimit,
): ResultsOut {
  const ordered = records.some((record) => orderingGroup(record) !== undefined);
  const write: Write = (pending) => writeAndSettle(pending, outcomes, deps, time);
  const writing = ordered ? writeInGroupOrder(records, outcomes, deps, write) : writeTogether(write, time.signal);
  return {
    finish: writing.finish,
    async take(replies) {
      const pending: PendingWrite[] = [];
      for (const reply of replies) {
        const index = reply.of;
        const record = records[index] as MessageRecord;
        if (isHandedBack(reply)) outcomes[index] ??= { status: 'retry', failure: reply.failure };
        else pending.push({ index, request: record.body, answer: reply, result: resultOf(record, reply.text) });
      }
      if (pending.length > 0) await writing.write(pending);
    },
  };
}

function resultOf(record: MessageRecord, body: string): Result {
  const resultQueue = record.messageAttributes[RESULT_QUEUE_ATTRIBUTE]?.stringValue;
  return { messageId: record.messageId, body, messageGroupId: orderingGroup(record), resultQueue };
}

type Write = (pending: readonly PendingWrite[]) => Promise<void>;

interface Writing extends Omit<ResultsOut, 'take'> {
  write(pending: readonly PendingWrite[]): Promise<void>;
}

/** Maximum length of unwritten results. Beyond it no further ones are requested. */
const UNWRITTEN_CHARACTERS = 4 * 1024 * 1024;
/** Length of results that fills a batch request of any store, so that they need not wait for more. */
const CHARACTERS_ENOUGH = 1024 * 1024;
/** About the duration of a write to SQS. Later results wait at most this long for a write that hangs. */
const MAX_GATHERING_MS = 20;

/**
 * Combines results that become ready during a write into the next write, so that a model that runs one row at a time
 * does not need a batch request for each. Results are written immediately if no write is in progress.
 */
function writeTogether(write: Write, signal: AbortSignal): Writing {
  const unwritten = createMemoryBudget(UNWRITTEN_CHARACTERS);
  const underWay = new Set<Promise<void>>();
  let gathered: PendingWrite[] = [];
  let characters = 0;
  let timer: NodeJS.Timeout | undefined;

  const writeGathered = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (gathered.length === 0) return;
    const pending = gathered;
    gathered = [];
    characters = 0;
    const writing = write(pending).then(() => {
      underWay.delete(writing);
      for (const { index } of pending) unwritten.release(index);
      writeGathered();
    });
    underWay.add(writing);
  };
  return {
    async write(pending) {
      for (const one of pending) {
        const { length } = one.result.body;
        gathered.push(one);
        characters += length;
        unwritten.hold(one.index, length);
      }
      if (underWay.size === 0 || characters >= CHARACTERS_ENOUGH) writeGathered();
      else timer ??= setTimeout(writeGathered, MAX_GATHERING_MS);
      await unwritten.available(signal);
    },
    async finish() {
      writeGathered();
      await Promise.all(underWay);
    },
  };
}

/** Memory for results that wait for others of their group, as a multiple of the largest answer allowed. */
const LARGEST_ANSWERS_KEPT = 4;

/**
 * Writes FIFO results in the order of their message groups. It holds results until all are ready or the memory for them
 * is full. After the first record of a group that must be retried, no record of the group is written or acknowledged. A
 * record must also be retried if its result comes too long before those ahead of it. Results of a group that the store
 * takes all or none are written together, others one after the other.
 */
function writeInGroupOrder(
  records: readonly MessageRecord[],
  outcomes: (Outcome | undefined)[],
  { writer, limits }: ScoringDependencies,
  write: Write,
): Writing {
  const keptBack = new Map<number, PendingWrite>();
  const maxKept = LARGEST_ANSWERS_KEPT * limits.maxAnswerCharacters;
  let groups: readonly (readonly number[])[] = messageGroups(records);
  let characters = 0;
  let writing = Promise.resolve();
  const letGo = (index: number): void => {
    characters -= keptBack.get(index)?.result.body.length ?? 0;
    keptBack.delete(index);
  };
  /**
   * Returns the records of a group that wait for an outcome. Returns none if the next one must be retried, because then
   * all records after it must be.
   */
  const leftOf = (group: readonly number[]): readonly number[] => {
    const firstOpen = group.findIndex((index) => outcomes[index]?.status !== 'answered');
    const left = firstOpen < 0 ? [] : group.slice(firstOpen);
    const [next] = left;
    if (next === undefined || outcomes[next] === undefined) return left;
    for (const index of left) {
      outcomes[index] ??= BEHIND_RETRY;
      letGo(index);
    }
    return [];
  };
  const writeReady = async (): Promise<void> => {
    while (true) {
      groups = groups.map(leftOf).filter((group) => group.length > 0);
      const ready = groups.flatMap((group) => firstTogether(group, keptBack, writer));
      if (ready.length === 0) return;
      await write(ready);
      for (const { index } of ready) letGo(index);
    }
  };
  const writeNext = (): Promise<void> => {
    writing = writing.then(writeReady);
    return writing;
  };
  return {
    async write(pending) {
      for (const one of pending) {
        // A result after a record that must be retried is dropped.
        if (outcomes[one.index] !== undefined) continue;
        keptBack.set(one.index, one);
        characters += one.result.body.length;
      }
      if (characters > Math.min(UNWRITTEN_CHARACTERS, maxKept)) await writeNext();
      for (const { index } of pending.toReversed()) {
        if (characters <= maxKept) break;
        if (!keptBack.has(index)) continue;
        outcomes[index] ??= TOO_EARLY;
        letGo(index);
      }
    },
    async finish() {
      await writeNext();
      for (const index of groups.flat()) outcomes[index] ??= BEHIND_RETRY;
    },
  };
}

const TOO_EARLY: Outcome = {
  status: 'retry',
  failure: failure(
    'OUT_OF_MEMORY',
    'expected memory for results that wait for earlier messages of their groups, got too many of them; fewer come together next time',
  ),
};

const BEHIND_RETRY: Outcome = {
  status: 'retry',
  failure: failure('BEHIND_RETRY', 'an earlier message of this message group must be retried first'),
};

/** Groups indexes of FIFO records by message group, each in order. Standard records are left out. */
function messageGroups(records: readonly MessageRecord[]): number[][] {
  const ordered = records.map((_, index) => index).filter((index) => groupAt(records, index) !== undefined);
  return [...Map.groupBy(ordered, (index) => groupAt(records, index)).values()];
}

function groupAt(records: readonly MessageRecord[], index: number): string | undefined {
  return orderingGroup(records[index] as MessageRecord);
}

/** Returns the results of a group that may be written now: the first one, and those that share its message. */
function firstTogether(
  group: readonly number[],
  keptBack: ReadonlyMap<number, PendingWrite>,
  { writtenAsOne = () => 1 }: ResultWriter,
): PendingWrite[] {
  const ready: PendingWrite[] = [];
  for (const index of group) {
    const one = keptBack.get(index);
    if (one === undefined) break;
    ready.push(one);
  }
  return ready.slice(0, Math.max(1, writtenAsOne(ready.map(({ result }) => result))));
}

/**
 * Writes results together, and sets the outcomes of their records. It replaces a result that a store can never hold by
 * an error. Never throws.
 */
async function writeAndSettle(
  pending: readonly PendingWrite[],
  outcomes: (Outcome | undefined)[],
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<void> {
  if (pending.length === 0) return;
  const startedAt = deps.now();
  const replaced: PendingWrite[] = [];
  const refusals = await refusalsOf(pending, deps, time);
  for (const [position, one] of pending.entries()) {
    const failed = refusals[position];
    if (failed === undefined) {
      outcomes[one.index] ??= outcomeOf(one.answer);
      deps.capture?.take({ messageId: one.result.messageId, body: one.request, answer: one.answer.text });
    } else if (isTransient(failed)) outcomes[one.index] ??= { status: 'retry', failure: failed };
    else replaced.push(replacedBy(failed, one));
  }
  const refusalsOfErrors = await refusalsOf(replaced, deps, time);
  for (const [position, { index, answer }] of replaced.entries()) {
    const failed = refusalsOfErrors[position];
    outcomes[index] ??=
      failed === undefined
        ? outcomeOf(answer)
        : { status: 'retry', failure: failure('WRITE_FAILED', failed.message, failed.outage) };
  }
  const endedAt = deps.now();
  deps.observer.stage?.('write', startedAt, endedAt, { results: pending.length });
  deps.observer.written(endedAt - startedAt);
}

/** Outcome of nearly all records: one request, which is scored. */
const SCORED: Outcome = { status: 'answered', failures: [], requests: 1 };

function outcomeOf({ failures, requests }: Answer): Outcome {
  if (failures.length === 0 && requests === 1) return SCORED;
  return { status: 'answered', failures: failures.length > 1 ? oneOfEachCode(failures) : failures, requests };
}

/** Replaces each failure by the first one of its code, to save memory: a message may have ten thousand failures. */
function oneOfEachCode(failures: readonly Failure[]): Failure[] {
  const first = new Map<string, Failure>();
  for (const failed of failures) if (!first.has(failed.code)) first.set(failed.code, failed);
  return failures.map((failed) => first.get(failed.code) ?? failed);
}

function replacedBy(refusal: Failure, { answer, result, ...pending }: PendingWrite): PendingWrite {
  const text = encodeError(result.messageId, idInAnswer(answer.text), refusal);
  return { ...pending, answer: { ...answer, text, failures: [refusal] }, result: { ...result, body: text } };
}

/** Writes results. Returns why each was not written, aligned with `pending`, or undefined if it was. */
async function refusalsOf(
  pending: readonly PendingWrite[],
  { writer, observer }: ScoringDependencies,
  time: TimeLimit,
): Promise<(Failure | undefined)[]> {
  if (pending.length === 0) return [];
  try {
    const results = pending.map(({ result }) => result);
    const statuses = await writer.write(results, time.signal);
    if (statuses.length !== pending.length) {
      throw new Error(`expected ${pending.length} statuses from the result writer, got ${statuses.length}`);
    }
    return Array.from(statuses, refusalIn);
  } catch (error) {
    observer.problem(error);
    return pending.map(() => failure('WRITE_FAILED', 'expected statuses from the result writer; it threw'));
  }
}

/** Returns the failure in a status. A status that is neither a failure nor a success is a failure, too. */
function refusalIn(status: WriteStatus | undefined): Failure | undefined {
  if (isFailure(status)) return status;
  if (status?.written === true) return undefined;
  return failure('WRITE_FAILED', 'expected a status from the result writer for every result; this one had none');
}
