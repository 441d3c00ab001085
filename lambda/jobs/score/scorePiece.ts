import { failure } from '../../core/failure.ts';
import type { PieceRow, PieceRows } from '../read/pieceRows.ts';
import { type Answer, errorRow, type RowScoring } from '../scoreRows.ts';
import type { Output } from './output.ts';
import type { Steps } from './steps.ts';

/**
 * Scores the rows of a piece that `output` does not hold yet, step by step.
 *
 * @param fruitless how many calls before ended without an answer to any of these rows
 * @returns whether all rows are answered; else there was no more time, or another call is ahead
 */
export async function scorePiece(
  rows: PieceRows,
  output: Output,
  scoring: RowScoring,
  steps: Steps,
  fruitless: number,
): Promise<boolean> {
  skip(rows, output.rows);
  const left = leftOf(rows);
  let isFirst = true;
  for (let size = steps.size(); size > 0; size = steps.size()) {
    const step = left.take(size);
    if (step.length === 0) return true;
    const { count, isTooMuch } = await scoreStep(step, output, scoring, steps, fruitless);
    if (output.isOvertaken) return false;
    if (count < step.length && !isTooMuch) return giveUp(step, isFirst && fruitless > 0 && count === 0, output);
    left.giveBack(step.slice(count));
    isFirst = false;
  }
  return left.take(1).length === 0;
}

/** Passes over rows that were answered before. */
export function skip(rows: PieceRows, count: number): void {
  for (let left = count; left > 0; ) {
    const skipped = rows.take(left).length;
    if (skipped === 0) throw new Error(`expected ${count} rows that were answered before, got ${count - left}`);
    left -= skipped;
  }
}

/** The rows of a piece, of which some may be given back to be handed out again. */
export function leftOf(rows: PieceRows) {
  let back: readonly PieceRow[] = [];
  return {
    take(most: number): readonly PieceRow[] {
      if (back.length === 0) return rows.take(most);
      const taken = back.slice(0, most);
      back = back.slice(most);
      return taken;
    },
    giveBack(given: readonly PieceRow[]): void {
      back = [...given, ...back];
    },
  };
}

/** @returns how many of the step's first rows were answered, and whether the others were too much to hold */
export async function scoreStep(
  step: readonly PieceRow[],
  output: Output,
  scoring: RowScoring,
  steps: Steps,
  fruitless: number,
): Promise<{ readonly count: number; readonly isTooMuch: boolean }> {
  const startedAt = performance.now();
  const { answers, isTooMuch } = await answersTo(step, scoring, steps, fruitless);
  const unsettled = answers.indexOf(undefined);
  const count = unsettled < 0 ? step.length : unsettled;
  const answered = answers.filter((answer) => answer !== undefined);
  const characters = answered.reduce((sum, { text }) => sum + text.length, 0);
  steps.took(answered.length, performance.now() - startedAt, characters);
  for (const [index, row] of step.slice(0, count).entries()) {
    addAnswer(output, row, answers[index]);
    if (output.isFull) await output.put();
  }
  return { count, isTooMuch };
}

async function answersTo(step: readonly PieceRow[], scoring: RowScoring, { time }: Steps, fruitless: number) {
  const good = step.filter(({ failed }) => failed === undefined);
  if (good.length === step.length) return scoring.score(good, time, fruitless);
  const { answers: scored, isTooMuch } = await scoring.score(good, time, fruitless);
  const answers = new Map(good.map((row, index) => [row, scored[index]]));
  const all = step.map((row): Answer | undefined => {
    if (row.failed === undefined) return answers.get(row);
    return { text: errorRow(row, row.failed), failures: [row.failed] };
  });
  return { answers: all, isTooMuch };
}

/** A row that had a call's whole time, alone, and was not scored, never will be: on a queue it would be a dead letter. */
function giveUp(step: readonly PieceRow[], hadAllTime: boolean, output: Output): false {
  const [row] = step;
  if (hadAllTime && step.length === 1 && row !== undefined) {
    const failed = failure('DEADLINE', "expected the row to be scored within one call's time; it was not, alone");
    addAnswer(output, row, { text: errorRow(row, failed), failures: [failed] });
  }
  return false;
}

/** @throws Error when there is none */
export function addAnswer(output: Output, { kept }: PieceRow, answer: Answer | undefined): void {
  if (answer === undefined) throw new Error('expected an answer to every row that was settled');
  const { text, failures } = answer;
  output.add(kept === undefined ? text : `${text.slice(0, -1)},"kept":${kept}}`, failures);
}
