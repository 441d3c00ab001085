import type { TimeLimit } from '../../core/contract/timeLimit.ts';
import { wantedFrom } from '../../core/job/cut.ts';
import { cancelledKey } from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import type { JobHead, Next, Part } from '../../core/job/words.ts';
import type { PieceReader, PieceRows } from '../read/pieceRows.ts';
import type { RowScoring } from '../scoreRows.ts';
import { createOutput } from './output.ts';
import { type Place, readPartials, writePartial, writePiece } from './pieceObjects.ts';
import { scorePiece } from './scorePiece.ts';
import { scoreSuspect } from './scoreSuspect.ts';
import { createSteps } from './steps.ts';

/** What a call is given, and answers with: `next` is where the one after it goes on; without it the part is done. */
export interface ScoreEvent {
  readonly action: 'score';
  readonly bucket: string;
  readonly folder: string;
  readonly part: Part;
  readonly next?: Next | undefined;
}

export interface PartDependencies {
  readonly storage: JobStorage;
  readonly head: JobHead;
  readonly reader: PieceReader;
  readonly scoring: RowScoring;
}

/** Of a call's time so much is kept for writing what was scored, within these milliseconds. */
const WRITING_SHARE = 0.1;
const WRITING_MS = { least: 300, most: 10_000 };
/** How often it is asked whether the job was cancelled. */
const CANCEL_MS = 2_000;

/**
 * Scores the pieces of a part, one after the other, until the call's time is nearly spent. While a piece is scored the
 * next one is read and the one before is written. What is written follows from the input alone: a call that is made
 * again writes the same rows under the same keys.
 */
export async function scorePart(event: ScoreEvent, deps: PartDependencies, time: TimeLimit): Promise<ScoreEvent> {
  try {
    return await scorePieces(event, deps, time);
  } finally {
    deps.reader.close();
  }
}

async function scorePieces(event: ScoreEvent, deps: PartDependencies, time: TimeLimit): Promise<ScoreEvent> {
  const { folder, part, next: begin = { piece: 0 }, ...rest } = event;
  const done: ScoreEvent = { ...rest, folder, part };
  const { reader, storage, scoring } = deps;
  const { fruitless = 0 } = begin;
  const steps = createSteps(time, reserveOf(time.remainingMs()), fruitless);
  const isCancelled = cancelWatch(storage, folder);
  let written: Promise<void> = Promise.resolve();
  let longestMs = 0;
  let piece = wantedFrom(part, begin.piece);
  let reading = startReading(reader, piece);
  for (let isFirst = true; ; isFirst = false) {
    if (!isFirst && (steps.hasNoTimeFor(longestMs) || (await isCancelled()))) {
      await written;
      return { ...done, next: { piece } };
    }
    const startedAt = performance.now();
    const rows = await reading;
    if (rows === undefined) break;
    const following = wantedFrom(part, piece + 1);
    reading = rows.isLast ? Promise.resolve(undefined) : startReading(reader, following);
    const place: Place = { folder, part: part.part, piece };
    const output =
      part.suspect || (isFirst && event.next !== undefined) ? await readPartials(storage, place) : createOutput();
    const isWhole = part.suspect
      ? await scoreSuspect(rows, output, { storage, place, scoring, steps })
      : await scorePiece(rows, output, scoring, steps, isFirst ? fruitless : 0);
    await written;
    if (!isWhole) {
      const answered = await writePartial(storage, place, output);
      return { ...done, next: answered > 0 ? { piece } : { piece, fruitless: isFirst ? fruitless + 1 : 0 } };
    }
    const ms = performance.now() - startedAt;
    longestMs = Math.max(longestMs, ms);
    const last = rows.isLast && part.end === undefined && part.rows === undefined ? { last: true as const } : {};
    written = writePiece(storage, place, output, { bytesIn: rows.bytes, ms: Math.round(ms), ...last });
    written.catch(() => {});
    piece = following;
  }
  await written;
  return done;
}

function reserveOf(totalMs: number): number {
  return Math.min(WRITING_MS.most, Math.max(WRITING_MS.least, totalMs * WRITING_SHARE));
}

/** What it rejects with is met where it is awaited. */
function startReading(reader: PieceReader, piece: number): Promise<PieceRows | undefined> {
  const reading = Number.isFinite(piece) ? reader.read(piece) : Promise.resolve(undefined);
  reading.catch(() => {});
  return reading;
}

/** Cancelling stops the state machine at once; this ends the calls that are at work. */
function cancelWatch(storage: JobStorage, folder: string): () => Promise<boolean> {
  let askedAt = performance.now();
  return async () => {
    if (performance.now() - askedAt < CANCEL_MS) return false;
    askedAt = performance.now();
    return (await storage.get(cancelledKey(folder))) !== undefined;
  };
}
