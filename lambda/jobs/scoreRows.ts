import { z } from 'zod';
import { encodeError } from '../core/encode.ts';
import { type Failure, failure, reasonOf } from '../core/failure.ts';
import { createLatencyEstimator } from '../core/latency.ts';
import { createMemoryCeiling } from '../core/memoryCeiling.ts';
import type { ModelRepository } from '../core/model.ts';
import type { Observer } from '../core/observer.ts';
import { plan } from '../core/plan.ts';
import type { MessageRecord, Outcome, TimeLimit } from '../core/record.ts';
import { type ScoringLimits, scoreRecords } from '../core/scoreRecords.ts';
import { createBatchingWatch } from '../core/verify.ts';

/** One request of a file: a line, or a row of columns that was spelled as one. */
export interface Row {
  /** What the result has as its message_id. */
  readonly id: string;
  readonly text: string;
}

/** The result of one row: a JSON document, and the failures that it tells of. */
export interface Answer {
  readonly text: string;
  readonly failures: readonly Failure[];
}

export interface RowScoringOptions {
  readonly models: ModelRepository;
  readonly limits: ScoringLimits;
  /** Percent of the run time that goes into running rows alone as well. */
  readonly checkPercent: number;
  /** Told of what it wants to know. */
  readonly observer: Partial<Observer>;
  /** Characters of answers that a call holds together, or one answer that is longer. @default all of them */
  readonly mostCharacters?: number | undefined;
}

/** What became of rows that were scored together. */
export interface Scored {
  /** In the order of the rows; undefined where there was no time, or no memory. */
  readonly answers: readonly (Answer | undefined)[];
  /** Whether some were let go, because all would have been too much to hold: fewer rows at a time are to be scored. */
  readonly isTooMuch: boolean;
}

export interface RowScoring {
  /**
   * The answers to rows with different ids. Calls may overlap: none sees the rows of another.
   *
   * @param tries how often these rows were handed over before without an answer to any: they are run in smaller steps
   * @throws Error when a row that was answered has no result
   */
  score(rows: readonly Row[], time?: TimeLimit, tries?: number): Promise<Scored>;
}

/** What a call of a job holds of answers: twice what a step should give. */
export const MOST_CHARACTERS_HELD = 16 * 1024 * 1024;

const NO_DEADLINE: TimeLimit = {
  remainingMs: () => Number.POSITIVE_INFINITY,
  signal: new AbortController().signal,
};

const NOBODY: Observer = {
  microBatch: () => {},
  decoded: () => {},
  checked: () => {},
  batchMismatch: () => {},
  written: () => {},
  runAbandoned: () => {},
  problem: () => {},
};

/**
 * The core over rows of a file instead of records of a queue. There is nothing to hand a row back to: where a record
 * would come again, a row has one more try, alone, and then an error result. Payload pointers are refused, not followed.
 *
 * What was learnt of a model's runs is kept from call to call; answers belong to their call, and calls may overlap.
 */
export function createRowScoring(options: RowScoringOptions): RowScoring {
  const { observer, checkPercent, models, limits, mostCharacters = Number.POSITIVE_INFINITY } = options;
  const kept = {
    models,
    limits,
    plan,
    latency: createLatencyEstimator(),
    memory: createMemoryCeiling(),
    batching: createBatchingWatch(checkPercent / 100),
    acknowledge: async () => {},
    now: () => performance.now(),
  };
  return {
    async score(rows, time = NO_DEADLINE, tries = 0) {
      const call = createCall(observer, mostCharacters);
      const deps = { ...kept, observer: call.observer, writer: call.writer };
      const outcomesOf = (some: readonly Row[], before: number): Promise<Outcome[]> =>
        scoreRecords(
          some.map((row) => toRecord(row, before)),
          deps,
          time,
        );
      const outcomes = await outcomesOf(rows, tries);
      const answers: (Answer | undefined)[] = [];
      for (const [index, row] of rows.entries()) {
        const first = outcomes[index];
        const isForAnotherTry = first?.status === 'retry' && !call.isLeft(row, first);
        const outcome = isForAnotherTry ? (await outcomesOf([row], 0))[0] : first;
        answers.push(call.answerTo(row, outcome));
      }
      return { answers, isTooMuch: call.isTooMuch() };
    },
  };
}

/** What one call holds: the results of its rows, until it returns. */
function createCall(observer: Partial<Observer>, mostCharacters: number) {
  const results = new Map<string, string>();
  const letGo = new Set<string>();
  let held = 0;
  let lastProblem: unknown;
  const take = (messageId: string, body: string) => {
    if (results.size > 0 && held + body.length > mostCharacters) {
      letGo.add(messageId);
      return NO_MEMORY;
    }
    held += body.length;
    results.set(messageId, body);
    return { written: true as const };
  };
  /** Whether a row is left for later: there was no time, or no memory. */
  const isLeft = (row: Row, outcome: Outcome): boolean => isOutOfTime(outcome) || letGo.has(row.id);
  return {
    observer: {
      ...NOBODY,
      ...observer,
      problem(error: unknown) {
        lastProblem = error;
        observer.problem?.(error);
      },
    },
    writer: {
      write: async (written: readonly { readonly messageId: string; readonly body: string }[]) =>
        written.map(({ messageId, body }) => take(messageId, body)),
    },
    isLeft,
    isTooMuch: () => letGo.size > 0,
    /** Undefined where the row is left for later. @throws Error when there is no outcome, or no result of its own for a row that was answered */
    answerTo(row: Row, outcome: Outcome | undefined): Answer | undefined {
      if (outcome === undefined) throw new Error(`row ${row.id}: expected an outcome, got none`);
      if (outcome.status === 'retry') {
        if (isLeft(row, outcome)) return undefined;
        const failed = explained(outcome.failure, lastProblem);
        return { text: errorRow(row, failed), failures: [failed] };
      }
      const text = results.get(row.id);
      if (text === undefined)
        throw new Error(`row ${row.id}: expected the result of a row that was answered, got none`);
      if (!isResultOf(row, text)) throw new Error(`row ${row.id}: expected its own result, got that of another`);
      return { text, failures: outcome.failures };
    },
  };
}

const NO_MEMORY = failure('WRITE_FAILED', 'expected memory for the answer beside those before it, got none');

/** The result of a row that cannot be scored. */
export function errorRow({ id, text }: Row, failed: Failure): string {
  return encodeError(id, idIn(text), failed);
}

function isOutOfTime(outcome: Outcome): boolean {
  return outcome.status === 'retry' && outcome.failure.code === 'DEADLINE';
}

/** Of a packed row the results are an array, each with the row's id. */
function isResultOf({ id }: Row, text: string): boolean {
  return text.startsWith(`{"message_id":${JSON.stringify(id)}`, text.startsWith('[') ? 1 : 0);
}

function toRecord({ id, text }: Row, tries: number): MessageRecord {
  return {
    messageId: id,
    receiptHandle: '',
    body: text,
    attributes: { ApproximateReceiveCount: String(1 + tries), SentTimestamp: '0' },
    messageAttributes: {},
    eventSourceARN: '',
  };
}

/** A bug has no log to be read in: the result says why. */
function explained(failed: Failure, problem: unknown): Failure {
  if (failed.code !== 'INTERNAL') return failed;
  return failure('INTERNAL', `expected the line to be scored; scoring it threw: ${reasonOf(problem)}`);
}

const WITH_ID = z.object({ id: z.string() });

/** The id of a row's request, where it has one. */
function idIn(text: string): string | undefined {
  try {
    return WITH_ID.safeParse(JSON.parse(text)).data?.id;
  } catch {
    return undefined;
  }
}
