import * as z from 'zod';
import { waitOrAbort } from '../core/concurrency.ts';
import { encodeError } from '../core/encode.ts';
import { type Failure, failure, reasonOf } from '../core/failure.ts';
import { parseIfJson } from '../core/json.ts';
import { createLatencyEstimator, createMemoryCeiling } from '../core/latency.ts';
import type { ModelRepository } from '../core/model.ts';
import { type Observer, SILENT } from '../core/observer.ts';
import { plan } from '../core/plan.ts';
import { NO_DEADLINE, type TimeLimit } from '../core/record.ts';
import { type HandedBack, isHandedBack, type KeyedBody, type Reply } from '../core/replies.ts';
import { type ReplySink, type ScoringLimits, score } from '../core/score.ts';
import { createBatchingWatch } from '../core/verify.ts';
import type { Quarantine, QuarantineHost } from '../hosts/quarantine.ts';
import { GRACE_MS, tierSize } from '../hosts/records.ts';

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
  readonly models: ModelRepository;
  readonly limits: ScoringLimits;
  /** Percent of the run time that goes into running rows alone as well. */
  readonly checkPercent: number;
  /** Told of what it wants to know. */
  readonly observer: Partial<Observer>;
  /** Where rows are scored that have ended a call. @default in this process */
  readonly openQuarantine?: ((host: QuarantineHost) => Quarantine | undefined) | undefined;
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

interface AboutRows {
  /** How often these rows were handed over before without an answer to any: they are run in smaller steps. @default 0 */
  readonly tries?: number;
  /** Whether processes have died of them: they are scored in another. @default false */
  readonly isSuspect?: boolean;
}

export interface RowScoring {
  /**
   * The answers to rows with different ids. Calls may overlap: none sees the rows of another.
   *
   * @throws Error when there is no reply to a row although there was time for it, or the quarantine gives the model up
   */
  score(rows: readonly Row[], time?: TimeLimit, about?: AboutRows): Promise<Scored>;
}

/** What a call of a job holds of answers: twice what a step should give. */
export const MAX_CHARACTERS_HELD = 16 * 1024 * 1024;

/**
 * The core over rows of a file. There is nothing to hand a row back to: a row that fails for now has one more try, alone,
 * and then an error result. Payload pointers are refused, not followed.
 *
 * What was learnt of a model's runs is kept from call to call; answers belong to their call, and calls may overlap.
 */
export function createRowScoring(options: RowScoringOptions): RowScoring {
  const { observer, checkPercent, models, limits, openQuarantine, maxCharacters = Number.POSITIVE_INFINITY } = options;
  const kept = {
    models,
    limits,
    plan,
    latency: createLatencyEstimator(),
    memory: createMemoryCeiling(),
    batching: createBatchingWatch(checkPercent / 100),
    now: () => performance.now(),
  };
  let opened: Quarantine | undefined;
  const quarantine = (): Quarantine | undefined => {
    opened ??= openQuarantine?.({ models, batching: kept.batching, observer: { ...SILENT, ...observer } });
    return opened;
  };
  return {
    async score(rows, time = NO_DEADLINE, { tries = 0, isSuspect = false } = {}) {
      let lastProblem: unknown;
      const problem = (error: unknown): void => {
        lastProblem = error;
        observer.problem?.(error);
      };
      const deps = { ...kept, observer: { ...SILENT, ...observer, problem } };
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
        const takeAs =
          (rowOf: (body: number) => number): ReplySink =>
          async (given) => {
            for (const reply of given) take(rowOf(reply.of), reply);
          };
        const scoreHere = (those: readonly number[]): Promise<void> => {
          const chosen = those.map((body) => bodies[body] as KeyedBody);
          return score(
            chosen,
            deps,
            time,
            takeAs((body) => first + (those[body] as number)),
          );
        };
        const isolated = isSuspect ? quarantine() : undefined;
        const scoring =
          isolated?.score(
            bodies,
            time,
            takeAs((body) => first + body),
            scoreHere,
          ) ?? scoreHere([...bodies.keys()]);
        await waitOrAbort(scoring, time.signal, GRACE_MS);
      };
      const together = tierSize(tries, rows.length);
      for (let first = 0; first < rows.length; first += together) {
        await scoreSome(first, rows.slice(first, first + together));
      }
      const answers: (RowResult | undefined)[] = [];
      for (const [index, row] of rows.entries()) {
        const first = replies.get(index);
        // Row after row has ended its process: it is the model, and others would fare no better.
        if (isSuspect && first !== undefined && isHandedBack(first) && quarantine()?.isBroken()) {
          throw new Error(first.failure.message);
        }
        // Another try may not meet what a row failed by for now; one for which there was no time is left for later.
        if (first !== undefined && isHandedBack(first) && !isOutOfTime(first)) await scoreSome(index, [row]);
        const reply = replies.get(index);
        if (reply === undefined && !time.signal.aborted && !letGo.has(index)) {
          throw new Error(`row ${row.id}: expected a reply, got none`);
        }
        answers.push(reply && answerOf(row, reply, lastProblem));
      }
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
