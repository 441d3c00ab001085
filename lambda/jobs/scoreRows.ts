import { sooner, waitOrAbort } from '../core/concurrency.ts';
import { createRowEncoder, encodeError } from '../core/encode.ts';
import { type Failure, failure, reasonOf } from '../core/failure.ts';
import type { ModelDescription } from '../core/model.ts';
import { type Observer, SILENT } from '../core/observer.ts';
import { GRACE_MS, NO_DEADLINE, type TimeLimit } from '../core/record.ts';
import { answerSize, type HandedBack, isHandedBack, type KeyedBody, type Reply } from '../core/replies.ts';
import { idInBody } from '../core/request.ts';
import type { CallOptions, ReplySink, ScoreBodies } from '../core/score.ts';
import type { Results, RowResult, SharedScores } from './results.ts';
import type { Rows } from './rows.ts';
import { Table } from './table.ts';

export interface RowScoringOptions {
  readonly score: ScoreBodies;
  /** Told of what it wants to know. */
  readonly observer: Partial<Observer>;
  /** The model of rows that name none, in that version. @default that of the repository */
  readonly defaults?: CallOptions['defaults'];
  /** Model of rows of tables. @default each row is a request */
  readonly table?: TableModel | undefined;
  /** Characters or bytes of answers that a call holds together, or one larger answer. @default all of them */
  readonly maxSize?: number | undefined;
}

/** Model of rows of tables, kept as long as its scorer. */
export interface TableModel {
  readonly model: ModelDescription;
  /** Set once its rows were found to depend on each other: from then on each is a request. */
  isMixing: boolean;
}

export interface RowScoring {
  /**
   * Scores rows with different IDs. Calls may overlap.
   *
   * @throws Error if a row gets no reply although there is time for it, or if a model ends its processes
   */
  score(rows: Rows, time?: TimeLimit): Promise<Results>;
}

/** What a call of a job holds of answers: twice what a step should give. */
export const MAX_SIZE_HELD = 16 * 1024 * 1024;

/**
 * Creates the scoring of rows of a file. Rows of a table share requests, unless their model may not. If a request fails, its
 * rows are scored singly, so that a failure is that of one row. A row that fails for now has one more try, alone, and then an
 * error result, because there is nothing to hand it back to. Payload pointers are refused, not followed.
 */
export function createRowScoring(options: RowScoringOptions): RowScoring {
  return {
    async score(rows, time = NO_DEADLINE) {
      const single = new Array<RowResult | undefined>(rows.length).fill(undefined);
      const states = new Uint8Array(rows.length);
      for (let row = 0; row < rows.length; row++) {
        const failed = rows.failureOf(row);
        if (failed === undefined) continue;
        single[row] = errorOf(rows, row, failed);
        states[row] = SETTLED;
      }
      const call: RowCall = { ...options, rows, time, ask: createAsking(options), single, states };
      const shared = await scoreTogether(call);
      await scoreSingly(call);
      refuseLostModel(call, shared);
      const first = states.findIndex((state) => state !== SETTLED);
      const count = first < 0 ? rows.length : first;
      return { rows, count, single, shared, isTooMuch: states.includes(LET_GO) };
    },
  };
}

/** Rows that are scored together. */
interface RowCall extends Pick<RowScoringOptions, 'table'> {
  readonly rows: Rows;
  readonly time: TimeLimit;
  readonly ask: ReturnType<typeof createAsking>;
  /** Results of rows that share no request, by row. */
  readonly single: (RowResult | undefined)[];
  /** By row. */
  readonly states: Uint8Array;
}

const OPEN = 0;
const SETTLED = 1;
/** State of a row whose result was too much to hold. */
const LET_GO = 2;

/** Scores rows of a table, many in a request. Those of a request that fails are left. */
async function scoreTogether({ rows, time, table, ask, states }: RowCall): Promise<SharedScores[]> {
  if (table === undefined || table.isMixing || !mayShareRequests(table.model) || !(rows instanceof Table)) return [];
  const { model } = table;
  const requests = rows.cutIntoRequests(model.maxBatchRows);
  const bodies = requests.map((some) => ({ key: rangeOf(rows, some), body: rows.requestOfRows(some, 'tensors') }));
  const leftMs = time.remainingMs();
  // The rest is for rows of requests that fail, or hang.
  const laterMs = Number.isFinite(leftMs) ? leftMs / 2 : 0;
  const { signal, end } = sooner(time.signal, leftMs - laterMs);
  const limit = { ...time, remainingMs: () => time.remainingMs() - laterMs, signal };
  const replies = await ask(bodies, limit).finally(end);
  if (table.isMixing) return [];
  const shared: SharedScores[] = [];
  for (const [index, some] of requests.entries()) {
    const reply = replies.get(index);
    const outputs = reply === undefined || reply === TOO_MUCH || isHandedBack(reply) ? undefined : reply.outputs;
    if (outputs !== undefined) {
      shared.push({ table: rows, rows: some, outputs, textOf: createRowEncoder(model, outputs) });
    }
    const state = reply === TOO_MUCH ? LET_GO : outputs === undefined ? OPEN : SETTLED;
    for (const row of some) states[row] = state;
  }
  return shared;
}

/** Scores each row that is left as a request of its own. */
async function scoreSingly({ rows, time, ask, single, states }: RowCall): Promise<void> {
  const left: number[] = [];
  for (let row = 0; row < states.length; row++) if (states[row] === OPEN) left.push(row);
  const bodyOf = (row: number): KeyedBody => ({ key: rows.idOf(row), body: rows.requestOf(row) });
  const replies = await ask(left.map(bodyOf), time);
  for (const [index, row] of left.entries()) {
    let reply = replies.get(index);
    // Another try may not meet what a row failed by for now. One for which there was no time is left for later.
    if (reply !== undefined && reply !== TOO_MUCH && isHandedBack(reply) && !isOutOfTime(reply)) {
      reply = (await ask([bodyOf(row)], time)).get(0) ?? reply;
    }
    if (reply === undefined && !time.signal.aborted)
      throw new Error(`row ${rows.idOf(row)}: expected a reply, got none`);
    if (reply === TOO_MUCH) states[row] = LET_GO;
    else if (reply !== undefined) {
      const result = resultOf(rows, row, reply, ask.lastProblem());
      single[row] = result;
      if (result !== undefined) states[row] = SETTLED;
    }
  }
}

/** @throws Error if the model cannot be opened, or ends its processes: other rows would fare no better */
function refuseLostModel({ rows, single }: RowCall, shared: readonly SharedScores[]): void {
  if (shared.length > 0) return;
  let lost: Failure | undefined;
  for (const [row, result] of single.entries()) {
    if (rows.failureOf(row) !== undefined) continue;
    const unavailable = result?.failures.find(({ code }) => code === 'MODEL_UNAVAILABLE');
    if (unavailable === undefined) return;
    lost ??= unavailable;
  }
  if (lost !== undefined) throw new Error(lost.message);
}

const TOO_MUCH = 'too much to hold';

/** Returns what has bodies scored and keeps their replies, by body: none where there was no time. */
function createAsking({ score, observer, defaults, table, maxSize = Number.POSITIVE_INFINITY }: RowScoringOptions) {
  let heldSize = 0;
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
        const size = isHandedBack(reply) ? 0 : answerSize(reply);
        const isTooMuch = size > 0 && heldSize > 0 && heldSize + size > maxSize;
        if (!isTooMuch) heldSize += size;
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

function rangeOf(rows: Rows, some: readonly number[]): string {
  const [first, last] = [rows.idOf(some[0] as number), rows.idOf(some.at(-1) as number)];
  return some.length === 1 ? first : `${first}-${last}`;
}

/** Returns undefined if there was no time for the row. */
function resultOf(rows: Rows, row: number, reply: Reply, lastProblem: unknown): RowResult | undefined {
  if (!isHandedBack(reply)) return { text: reply.text, failures: reply.failures };
  return isOutOfTime(reply) ? undefined : errorOf(rows, row, explained(reply.failure, lastProblem));
}

function isOutOfTime({ failure: { code } }: HandedBack): boolean {
  return code === 'DEADLINE';
}

/** Returns the result of a row that cannot be scored. */
export function errorOf(rows: Rows, row: number, failed: Failure): RowResult {
  return { text: encodeError(rows.idOf(row), idInBody(rows.requestOf(row)), failed), failures: [failed] };
}

/** A bug has no log to be read in: the result says why. */
function explained(failed: Failure, problem: unknown): Failure {
  if (failed.code !== 'INTERNAL') return failed;
  return failure('INTERNAL', `expected the line to be scored; scoring it threw: ${reasonOf(problem)}`);
}
