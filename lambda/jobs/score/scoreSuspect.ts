import { z } from 'zod';
import { failure } from '../../core/contract/failure.ts';
import { suspectKey } from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import type { PieceRow, PieceRows } from '../read/pieceRows.ts';
import { parseObject } from '../schemas.ts';
import { errorRow, type RowScoring } from '../scoreRows.ts';
import type { Output } from './output.ts';
import { type Place, writePartial } from './pieceObjects.ts';
import { addAnswer, answersTo, skip } from './scorePiece.ts';
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
  const died = await readTrial(storage, key);
  let size = ROWS_AT_FIRST;
  if (died !== undefined && died.row === output.rows) {
    size = Math.max(1, Math.floor(died.size / 2));
    if (died.size === 1) await answerCulprit(rows, output, storage, place);
  }
  for (; steps.size() > 0; size = Math.min(ROWS_AT_FIRST, 2 * size)) {
    const step = rows.take(Math.min(size, steps.size()));
    if (step.length === 0) return true;
    const trial: Trial = { row: output.rows, size: step.length };
    await storage.put(key, JSON.stringify(trial));
    const startedAt = performance.now();
    const answers = await answersTo(step, scoring, steps, 0);
    const settled = answers.indexOf(undefined);
    const answered = settled < 0 ? step.length : settled;
    for (const [index, row] of step.slice(0, answered).entries()) addAnswer(output, row, answers[index]);
    steps.took(answered, performance.now() - startedAt);
    await writePartial(storage, place, output);
    if (settled >= 0) return false;
  }
  return false;
}

async function answerCulprit(rows: PieceRows, output: Output, storage: JobStorage, place: Place): Promise<void> {
  const [row] = rows.take(1);
  if (row === undefined) return;
  const failed = failure('RUN_FAILED', 'expected the row to be scored; alone too, it ended the process');
  addAnswer(output, row as PieceRow, { text: errorRow(row, failed), failures: [failed] });
  await writePartial(storage, place, output);
}

async function readTrial(storage: JobStorage, key: string): Promise<Trial | undefined> {
  const text = await storage.get(key);
  return text === undefined ? undefined : parseObject(TRIAL, text, key);
}
