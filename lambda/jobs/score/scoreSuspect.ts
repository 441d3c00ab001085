import { z } from 'zod';
import { failure } from '../../core/failure.ts';
import { suspectKey } from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import type { PieceRows } from '../read/pieceRows.ts';
import { parseObject } from '../schemas.ts';
import { errorRow, type RowScoring } from '../scoreRows.ts';
import type { Output } from './output.ts';
import { addAnswer, leftOf, scoreStep, skip } from './scorePiece.ts';
import type { Place } from './standing.ts';
import type { Steps } from './steps.ts';

/** What is tried: rows from `row` on, so many. A call that begins and finds it where it is itself died of it. */
const TRIAL = z.object({ row: z.int().min(0), size: z.int().min(1) });
type Trial = z.infer<typeof TRIAL>;

export interface SuspectDependencies {
  readonly storage: JobStorage;
  readonly place: Place;
  readonly scoring: RowScoring;
  readonly steps: Steps;
}

/** As many as a step of any other piece: where no row ends the process, nothing is slow. */
const ROWS_AT_FIRST = 1000;

/**
 * Scores a piece that has ended the process of calls before: it notes which rows it tries, and keeps what it answers
 * after each step. A call that finds its own note halves the step, until one row stands alone; that one is answered with
 * an error, and the others have their scores.
 *
 * @returns whether all rows are answered
 */
export async function scoreSuspect(
  rows: PieceRows,
  output: Output,
  { storage, place, scoring, steps }: SuspectDependencies,
): Promise<boolean> {
  const key = suspectKey(place.folder, place.part, place.piece);
  skip(rows, output.rows);
  const left = leftOf(rows);
  const died = await readTrial(storage, key);
  let size = ROWS_AT_FIRST;
  if (died !== undefined && died.row === output.rows) {
    size = Math.max(1, Math.floor(died.size / 2));
    if (died.size === 1) await answerCulprit(rows, output);
  }
  for (; steps.size() > 0; size = Math.min(ROWS_AT_FIRST, 2 * size)) {
    const step = left.take(Math.min(size, steps.size()));
    if (step.length === 0) return true;
    const trial: Trial = { row: output.rows, size: step.length };
    await storage.put(key, JSON.stringify(trial));
    const { count, isTooMuch } = await scoreStep(step, output, scoring, steps, 0);
    await output.finish();
    if (output.isOvertaken || (count < step.length && !isTooMuch)) return false;
    left.giveBack(step.slice(count));
  }
  return false;
}

async function answerCulprit(rows: PieceRows, output: Output): Promise<void> {
  const [row] = rows.take(1);
  if (row === undefined) return;
  const failed = failure('RUN_FAILED', 'expected the row to be scored; alone too, it ended the process');
  addAnswer(output, row, { text: errorRow(row, failed), failures: [failed] });
  await output.finish();
}

async function readTrial(storage: JobStorage, key: string): Promise<Trial | undefined> {
  const text = await storage.get(key);
  return text === undefined ? undefined : parseObject(TRIAL, text, key);
}
