import * as z from 'zod';
import { sooner, waitOrAbort } from '../core/concurrency.ts';
import { encodeError } from '../core/encode.ts';
import { type Failure, failure, reasonOf } from '../core/failure.ts';
import { parseIfJson } from '../core/json.ts';
import type { ModelDescription } from '../core/model.ts';
import { type Observer, SILENT } from '../core/observer.ts';
import { GRACE_MS, NO_DEADLINE, type TimeLimit } from '../core/record.ts';
import { type HandedBack, isHandedBack, type KeyedBody, type Reply } from '../core/replies.ts';
import type { CallOptions, ReplySink, ScoreBodies } from '../core/score.ts';
import type { Row } from './rowRequests.ts';
import { cutIntoRequests, requestOfRows, TableRow } from './tableRows.ts';
import { type RowResult, readScores, TableResult } from './tableScores.ts';

export interface RowScoringOptions {
  readonly score: ScoreBodies;
  /** Told of what it wants to know. */
  readonly observer: Partial<Observer>;
  /** The model of rows that name none, in that version. @default that of the repository */
  readonly defaults?: CallOptions['defaults'];
  /** Model of rows of tables. @default each row is a request */
  readonly table?: TableModel | undefined;
  /** Characters of answers that a call holds together, or one answer that is longer. @default all of them */
  readonly maxCharacters?: number | undefined;
}

/** Model of rows of tables, kept as long as its scorer. */
export interface TableModel {
  readonly model: ModelDescription;
  /** Set once its rows were found to depend on each other: from then on each is a request. */
  isMixing: boolean;
}

/** What became of rows that were scored together. */
interface Scored {
  /** In the order of the rows; undefined where there was no time, or no memory. */
  readonly answers: readonly (RowResult | undefined)[];
  /** True if some were let go, because all would have been too much to hold: fewer rows at a time are to be scored. */
  readonly isTooMuch: boolean;
}

export interface RowScoring {
  /**
   * The answers to rows with different ids. Calls may overlap: none sees the rows of another.
   *
   * @throws Error when there is no reply to a row although there was time for it, or a model ends its processes
   */
  score(rows: readonly Row[], time?: TimeLimit): Promise<Scored>;
}

/** What a call of a job holds of answers: twice what a step should give. */
export const MAX_CHARACTERS_HELD = 16 * 1024 * 1024;

/**
 * Scores rows of a file. Rows of a table share requests, unless their model may not; rows of a request that fails are scored
 * singly, so that a failure is that of one row. There is nothing to hand a row back to: a row that fails for now has one more
 * try, alone, and then an error result. Payload pointers are refused, not followed.
 */
export function createRowScoring(options: RowScoringOptions): RowScoring {
  return {
    async score(rows, time = NO_DEADLINE) {
      const call = {
        ...options,
        rows,
        time,
        ask: createAsking(options),
        answers: new Array(rows.length).fill(undefined),
        letGo: new Set<number>(),
      };
      await scoreTogether(call);
      await scoreSingly(call);
      const { answers, letGo } = call;
      // It cannot be opened, or ends its processes: other rows would fare no better.
      const unavailable = answers[0]?.failures.find(isModelUnavailable);
      const isLost = unavailable !== undefined && answers.every((answer) => answer?.failures.some(isModelUnavailable));
      if (isLost) throw new Error(unavailable.message);
      return { answers, isTooMuch: letGo.size > 0 };
    },
  };
}

/** Rows that are scored together. */
interface RowCall extends Pick<RowScoringOptions, 'table'> {
  readonly rows: readonly Row[];
  readonly time: TimeLimit;
  readonly ask: ReturnType<typeof createAsking>;
  /** By row. */
  readonly answers: (RowResult | undefined)[];
  /** Rows whose answers were too much to hold. */
  readonly letGo: Set<number>;
}

/** Scores rows of a table, many in a request. Those of a request that fails are left. */
async function scoreTogether({ rows, time, table, ask, answers, letGo }: RowCall): Promise<void> {
  if (table === undefined || table.isMixing || !mayShareRequests(table.model)) return;
  const { model } = table;
  const ofTable = rows.filter((row) => row instanceof TableRow);
  const chunks = cutIntoRequests(ofTable, model.maxBatchRows);
  const bodies = chunks.map((chunk) => ({ key: rangeOf(chunk), body: requestOfRows(chunk, true) }));
  const leftMs = time.remainingMs();
  // The rest is for rows of requests that fail, or hang.
  const laterMs = Number.isFinite(leftMs) ? leftMs / 2 : 0;
  const { signal, end } = sooner(time.signal, leftMs - laterMs);
  const limit = { ...time, remainingMs: () => time.remainingMs() - laterMs, signal };
  const replies = await ask(bodies, limit).finally(end);
  if (table.isMixing) return;
  let first = 0;
  for (const [index, chunk] of chunks.entries()) {
    const reply = replies.get(index);
    const isScored = reply !== undefined && reply !== TOO_MUCH && !isHandedBack(reply) && reply.failures.length === 0;
    const scores = isScored ? readScores(reply.text, model, chunk.length) : undefined;
    for (let at = 0; at < chunk.length; at++) {
      if (reply === TOO_MUCH) letGo.add(first + at);
      if (scores !== undefined) answers[first + at] = new TableResult((chunk[at] as TableRow).id, scores, at);
    }
    first += chunk.length;
  }
}

/** Scores each row that is left as a request of its own. */
async function scoreSingly({ rows, time, ask, answers, letGo }: RowCall): Promise<void> {
  const left: [number, Row][] = [];
  for (const [index, row] of rows.entries()) {
    if (answers[index] === undefined && !letGo.has(index)) left.push([index, row]);
  }
  const replies = await ask(
    left.map(([, row]) => bodyOf(row)),
    time,
  );
  for (const [at, [index, row]] of left.entries()) {
    let reply = replies.get(at);
    // Another try may not meet what a row failed by for now; one for which there was no time is left for later.
    if (reply !== undefined && reply !== TOO_MUCH && isHandedBack(reply) && !isOutOfTime(reply)) {
      reply = (await ask([bodyOf(row)], time)).get(0) ?? reply;
    }
    if (reply === undefined && !time.signal.aborted) throw new Error(`row ${row.id}: expected a reply, got none`);
    if (reply === TOO_MUCH) letGo.add(index);
    else if (reply !== undefined) {
      const answer = answerOf(row, reply, ask.lastProblem());
      answers[index] = answer;
    }
  }
}

const TOO_MUCH = 'too much to hold';

/** Returns what has bodies scored and keeps their replies, by body: none where there was no time. */
function createAsking({
  score,
  observer,
  defaults,
  table,
  maxCharacters = Number.POSITIVE_INFINITY,
}: RowScoringOptions) {
  let heldCharacters = 0;
  let lastProblem: unknown;
  const told: Observer = {
    ...SILENT,
    ...observer,
    problem(error) {
      lastProblem = error;
      observer.problem?.(error);
    },
    batchMismatch(mismatch) {
      if (table !== undefined) table.isMixing = true;
      observer.batchMismatch?.(mismatch);
    },
  };
  const ask = async (bodies: readonly KeyedBody[], time: TimeLimit) => {
    const replies = new Map<number, Reply | typeof TOO_MUCH>();
    const sink: ReplySink = async (given) => {
      for (const reply of given) {
        const characters = isHandedBack(reply) ? 0 : reply.text.length;
        const isTooMuch = characters > 0 && heldCharacters > 0 && heldCharacters + characters > maxCharacters;
        if (!isTooMuch) heldCharacters += characters;
        replies.set(reply.of, isTooMuch ? TOO_MUCH : reply);
      }
    };
    if (bodies.length === 0 || time.signal.aborted) return replies;
    await waitOrAbort(score(bodies, time, sink, { observer: told, defaults }), time.signal, GRACE_MS);
    return replies;
  };
  return Object.assign(ask, { lastProblem: () => lastProblem });
}

/**
 * Returns whether rows may share a request: its answer is that of each row alone only where the graph of the model tells that
 * rows do not depend on each other, or its owner says so.
 */
function mayShareRequests({ sharing, independence, transform, inputs, outputs }: ModelDescription): boolean {
  const areIndependent = sharing !== 'never' && (independence === 'independent' || sharing !== 'compared');
  const areFirst = [...inputs, ...outputs].every(({ batchAxis = 0 }) => batchAxis === 0);
  return areIndependent && areFirst && transform === undefined;
}

function bodyOf({ id, text }: Row): KeyedBody {
  return { key: id, body: text };
}

function rangeOf(rows: readonly Row[]): string {
  const [first, last] = [rows[0], rows.at(-1)];
  return first === last ? `${first?.id}` : `${first?.id}-${last?.id}`;
}

/** Undefined where there was no time for the row. */
function answerOf(row: Row, reply: Reply, lastProblem: unknown): RowResult | undefined {
  if (!isHandedBack(reply)) return { text: reply.text, failures: reply.failures };
  if (isOutOfTime(reply)) return undefined;
  const failed = explained(reply.failure, lastProblem);
  return { text: errorRow(row, failed), failures: [failed] };
}

function isModelUnavailable({ code }: Failure): boolean {
  return code === 'MODEL_UNAVAILABLE';
}

function isOutOfTime({ failure: { code } }: HandedBack): boolean {
  return code === 'DEADLINE';
}

/** The result of a row that cannot be scored. */
export function errorRow({ id, text }: Row, failed: Failure): string {
  return encodeError(id, idIn(text), failed);
}

/** A bug has no log to be read in: the result says why. */
function explained(failed: Failure, problem: unknown): Failure {
  if (failed.code !== 'INTERNAL') return failed;
  return failure('INTERNAL', `expected the line to be scored; scoring it threw: ${reasonOf(problem)}`);
}

const WITH_ID = z.object({ id: z.string() });

/** The id of a row's request, where it has one. */
function idIn(text: string): string | undefined {
  return WITH_ID.safeParse(parseIfJson(text)).data?.id;
}
