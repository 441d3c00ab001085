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
import { mayShareRequests, type RowResult, TableResult, TableScores } from './tableScores.ts';

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
  /** Whether some were let go, because all would have been too much to hold: fewer rows at a time are to be scored. */
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
  return { score: (rows, time = NO_DEADLINE) => new RowCall(options, rows, time).run() };
}

class RowCall {
  readonly #options: RowScoringOptions;
  readonly #rows: readonly Row[];
  readonly #time: TimeLimit;
  readonly #answers: (RowResult | undefined)[];
  /** Rows whose answers were too much to hold. */
  readonly #letGo = new Set<number>();
  #heldCharacters = 0;
  #lastProblem: unknown;

  constructor(options: RowScoringOptions, rows: readonly Row[], time: TimeLimit) {
    this.#options = options;
    this.#rows = rows;
    this.#time = time;
    this.#answers = new Array(rows.length).fill(undefined);
  }

  async run(): Promise<Scored> {
    await this.#scoreTable();
    await this.#scoreSingly();
    const failures = this.#answers.flatMap((answer) => answer?.failures.find(isModelUnavailable) ?? []);
    // It cannot be opened, or ends its processes: other rows would fare no better.
    if (this.#rows.length > 0 && failures.length === this.#rows.length) throw new Error(failures[0]?.message);
    return { answers: this.#answers, isTooMuch: this.#letGo.size > 0 };
  }

  /** Scores rows of a table, many in a request. */
  async #scoreTable(): Promise<void> {
    const { table } = this.#options;
    if (table === undefined || table.isMixing || !mayShareRequests(table.model)) return;
    const { model } = table;
    const chunks = cutIntoRequests(
      this.#rows.filter((row) => row instanceof TableRow),
      model.maxBatchRows,
    );
    const leftMs = this.#time.remainingMs();
    // The rest is for rows of requests that fail, or hang.
    const laterMs = Number.isFinite(leftMs) ? leftMs / 2 : 0;
    const half = sooner(this.#time.signal, leftMs - laterMs);
    const time = { ...this.#time, remainingMs: () => this.#time.remainingMs() - laterMs, signal: half.signal };
    const bodies = chunks.map((rows) => ({ key: rangeOf(rows), body: requestOfRows(rows, true) }));
    const replies = await this.#ask(bodies, time).finally(half.end);
    if (table.isMixing) return;
    let first = 0;
    for (const [index, rows] of chunks.entries()) {
      const reply = replies.get(index);
      if (reply === 'too much') for (const at of rows.keys()) this.#letGo.add(first + at);
      else if (reply !== undefined && !isHandedBack(reply) && reply.failures.length === 0) {
        const scores = TableScores.read(reply.text, model, rows.length);
        if (scores !== undefined) {
          for (const [at, { id }] of rows.entries()) this.#answers[first + at] = new TableResult(id, scores, at);
        }
      }
      first += rows.length;
    }
  }

  /** Scores each row that has no answer yet as a request of its own. */
  async #scoreSingly(): Promise<void> {
    const left = [...this.#rows.keys()].filter((row) => this.#answers[row] === undefined && !this.#letGo.has(row));
    const requests = left.map((row) => this.#rows[row] as Row);
    const replies = await this.#ask(requests.map(bodyOf), this.#time);
    for (const [index, row] of requests.entries()) {
      const first = replies.get(index);
      // Another try may not meet what a row failed by for now; one for which there was no time is left for later.
      const mayTry = first !== undefined && first !== 'too much' && isHandedBack(first) && !isOutOfTime(first);
      const reply = mayTry ? ((await this.#ask([bodyOf(row)], this.#time)).get(0) ?? first) : first;
      if (reply === undefined && !this.#time.signal.aborted) {
        throw new Error(`row ${row.id}: expected a reply, got none`);
      }
      if (reply === 'too much') this.#letGo.add(left[index] as number);
      else this.#answers[left[index] as number] = reply && answerOf(row, reply, this.#lastProblem);
    }
  }

  /** Has bodies scored. @returns replies by body: none where there was no time */
  async #ask(bodies: readonly KeyedBody[], time: TimeLimit): Promise<ReadonlyMap<number, Reply | 'too much'>> {
    const { score, observer, defaults, table, maxCharacters = Number.POSITIVE_INFINITY } = this.#options;
    const replies = new Map<number, Reply | 'too much'>();
    if (bodies.length === 0 || time.signal.aborted) return replies;
    const told: Observer = {
      ...SILENT,
      ...observer,
      problem: (error) => {
        this.#lastProblem = error;
        observer.problem?.(error);
      },
      batchMismatch: (mismatch) => {
        if (table !== undefined) table.isMixing = true;
        observer.batchMismatch?.(mismatch);
      },
    };
    const sink: ReplySink = async (given) => {
      for (const reply of given) {
        const characters = isHandedBack(reply) ? 0 : reply.text.length;
        const isTooMuch =
          characters > 0 && this.#heldCharacters > 0 && this.#heldCharacters + characters > maxCharacters;
        if (!isTooMuch) this.#heldCharacters += characters;
        replies.set(reply.of, isTooMuch ? 'too much' : reply);
      }
    };
    await waitOrAbort(score(bodies, time, sink, { observer: told, defaults }), time.signal, GRACE_MS);
    return replies;
  }
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
