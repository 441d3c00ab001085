import * as z from 'zod';
import { waitOrAbort } from '../core/concurrency.ts';
import { encodeError } from '../core/encode.ts';
import { type Failure, failure, reasonOf } from '../core/failure.ts';
import { parseIfJson } from '../core/json.ts';
import { type Observer, SILENT } from '../core/observer.ts';
import { GRACE_MS, NO_DEADLINE, type TimeLimit } from '../core/record.ts';
import { type HandedBack, isHandedBack, type Reply } from '../core/replies.ts';
import type { CallOptions, ReplySink, ScoreBodies } from '../core/score.ts';

/** One request of a file: a line, or a row of columns that was formatted as one. */
export interface Row {
  /** What the result has as its message_id. */
  readonly id: string;
  readonly text: string;
}

/** The result of one row: a JSON document, and the failures that it tells of. */
export interface RowResult {
  readonly text: string;
  readonly failures: readonly Failure[];
}

export interface RowScoringOptions {
  readonly score: ScoreBodies;
  /** Told of what it wants to know. */
  readonly observer: Partial<Observer>;
  /** The model of rows that name none, in that version. @default that of the repository */
  readonly defaults?: CallOptions['defaults'];
  /** Characters of answers that a call holds together, or one answer that is longer. @default all of them */
  readonly maxCharacters?: number | undefined;
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
 * Scores rows of a file. There is nothing to hand a row back to: a row that fails for now has one more try, alone, and then
 * an error result. Payload pointers are refused, not followed.
 */
export function createRowScoring(options: RowScoringOptions): RowScoring {
  const { score, observer, defaults, maxCharacters = Number.POSITIVE_INFINITY } = options;
  return {
    async score(rows, time = NO_DEADLINE) {
      let lastProblem: unknown;
      const problem = (error: unknown): void => {
        lastProblem = error;
        observer.problem?.(error);
      };
      const call = { observer: { ...SILENT, ...observer, problem }, defaults };
      const replies = new Map<number, Reply>();
      const letGo = new Set<number>();
      let held = 0;
      const take = (row: number, reply: Reply): void => {
        const characters = isHandedBack(reply) ? 0 : reply.text.length;
        if (characters > 0 && held > 0 && held + characters > maxCharacters) {
          letGo.add(row);
          replies.delete(row);
          return;
        }
        held += characters;
        replies.set(row, reply);
      };
      const scoreSome = async (first: number, some: readonly Row[]): Promise<void> => {
        if (time.signal.aborted) return;
        const bodies = some.map(({ id, text }) => ({ key: id, body: text }));
        const sink: ReplySink = async (given) => {
          for (const reply of given) take(first + reply.of, reply);
        };
        await waitOrAbort(score(bodies, time, sink, call), time.signal, GRACE_MS);
      };
      await scoreSome(0, rows);
      const answers: (RowResult | undefined)[] = [];
      for (const [index, row] of rows.entries()) {
        const first = replies.get(index);
        // Another try may not meet what a row failed by for now; one for which there was no time is left for later.
        if (first !== undefined && isHandedBack(first) && !isOutOfTime(first)) await scoreSome(index, [row]);
        const reply = replies.get(index);
        if (reply === undefined && !time.signal.aborted && !letGo.has(index)) {
          throw new Error(`row ${row.id}: expected a reply, got none`);
        }
        answers.push(reply && answerOf(row, reply, lastProblem));
      }
      const failures = answers.flatMap((answer) => answer?.failures.find(isModelUnavailable) ?? []);
      // It cannot be opened, or ends its processes: other rows would fare no better.
      if (rows.length > 0 && failures.length === rows.length) throw new Error(failures[0]?.message);
      return { answers, isTooMuch: letGo.size > 0 };
    },
  };
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
