import { addAbortSignal, type Readable } from 'node:stream';
import { linesOf } from './lines.ts';

export interface Line {
  /** From 1, blank lines counted. */
  readonly number: number;
  readonly text: string;
}

/** What one batch may hold at most. */
export interface LineBatchLimits {
  readonly lines: number;
  readonly characters: number;
}

/**
 * The lines of a stream that are not blank, in batches, so that memory does not grow with the file.
 *
 * @param signal ends them after the batch that was asked for last, without one that is not full yet
 */
export async function* batchesOfLines(
  input: Readable,
  limits: LineBatchLimits,
  signal: AbortSignal,
): AsyncGenerator<readonly Line[]> {
  try {
    for await (const batch of gathered(addAbortSignal(signal, input), limits)) {
      yield batch;
      if (signal.aborted) return;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

async function* gathered(input: Readable, limits: LineBatchLimits): AsyncGenerator<readonly Line[]> {
  let batch: Line[] = [];
  let characters = 0;
  let number = 0;
  for await (const text of linesOf(input)) {
    number += 1;
    if (text.trim() === '') continue;
    const full = batch.length === limits.lines || characters + text.length > limits.characters;
    if (full && batch.length > 0) {
      yield batch;
      batch = [];
      characters = 0;
    }
    batch.push({ number, text });
    characters += text.length;
  }
  if (batch.length > 0) yield batch;
}
