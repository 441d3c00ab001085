import { wantedFrom } from '../../core/job/cut.ts';
import { cancelledKey, failedKey, reportKey } from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import type { FailedPiece, JobHead, Next, Part, Report } from '../../core/job/words.ts';
import type { TimeLimit } from '../../core/record.ts';
import { type PieceReader, type PieceRows, UnreadableError } from '../read/pieceRows.ts';
import type { RowScoring } from '../scoreRows.ts';
import { createOutput, type Output } from './output.ts';
import { scorePiece } from './scorePiece.ts';
import { scoreSuspect } from './scoreSuspect.ts';
import { NOTHING, type Place, readStanding, type Standing } from './standing.ts';
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
/** Of a call's time so much is left for scoring when what comes before its first piece is passed over. */
const READING_SHARE = 0.5;
/** How often it is asked whether the job was cancelled. */
const CANCEL_MS = 2_000;

/** An object of results has at most so many times the bytes of a piece: mostly, a piece has one. */
const OBJECT_PIECES = 2;

/**
 * Scores the pieces of a part, one after the other, until the call's time is nearly spent. While a piece is scored the
 * next one is read and the one before is written. What was put of a piece stands: a call that is made again, or after
 * one that ended early, goes on behind it.
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
  const { reader, storage, scoring, head } = deps;
  const { fruitless = 0 } = begin;
  const totalMs = time.remainingMs();
  const steps = createSteps(time, reserveOf(totalMs), fruitless);
  const isCancelled = cancelWatch(storage, folder);
  const placeOf = (piece: number): Place => ({ folder, part: part.part, piece });
  const hasTime = (): boolean => !Number.isFinite(totalMs) || time.remainingMs() > totalMs * READING_SHARE;
  const startReading = (piece: number) => readPiece(reader, storage, placeOf(piece), hasTime);
  let written = Promise.resolve(true);
  let before = begin.piece;
  let longestMs = 0;
  let piece = wantedFrom(part, begin.piece);
  let reading = startReading(piece);
  for (let isFirst = true; ; isFirst = false) {
    if (!isFirst && (steps.hasNoTimeFor(longestMs) || (await isCancelled()))) {
      return { ...done, next: { piece: (await written) ? piece : before } };
    }
    const startedAt = performance.now();
    const read = await reading;
    const place = placeOf(piece);
    const following = wantedFrom(part, piece + 1);
    if (read instanceof UnreadableError) {
      if (read.isOutOfTime && !isFirst) return { ...done, next: { piece: (await written) ? piece : before } };
      await giveUp(storage, place, read);
      if (read.isOutOfTime) break;
      piece = following;
      reading = startReading(piece);
      continue;
    }
    const { rows, standing } = read;
    if (rows === undefined) break;
    reading = startReading(rows.isLast ? Number.POSITIVE_INFINITY : following);
    const output = createOutput({ storage, place, standing, objectBytes: OBJECT_PIECES * head.pieceBytes });
    const isWhole = part.suspect
      ? await scoreSuspect(rows, output, { storage, place, scoring, steps })
      : await scorePiece(rows, output, scoring, steps, isFirst ? fruitless : 0);
    if (!(await written)) return { ...done, next: { piece: before } };
    if (!isWhole) {
      const isFruitless = (await output.finish()).rows === standing.rows && !output.isOvertaken;
      return { ...done, next: isFruitless ? { piece, fruitless: isFirst ? fruitless + 1 : 0 } : { piece } };
    }
    const ms = performance.now() - startedAt;
    longestMs = Math.max(longestMs, ms);
    const last = rows.isLast && part.end === undefined && part.rows === undefined ? { last: true as const } : {};
    written = finishPiece(storage, place, output, { bytesIn: rows.bytes, ms: Math.round(ms), ...last });
    written.catch(() => {});
    before = piece;
    piece = following;
  }
  return (await written) ? done : { ...done, next: { piece: before } };
}

/** The report is put last: a piece that has one has all its rows. @returns false when another call is ahead of this one */
async function finishPiece(
  storage: JobStorage,
  { folder, part, piece }: Place,
  output: Output,
  about: Pick<Report, 'bytesIn' | 'ms' | 'last'>,
): Promise<boolean> {
  const { rows, errors, bytes, objects } = await output.finish();
  if (output.isOvertaken) return false;
  const report: Report = { part, piece, rows, errors, bytesOut: bytes, objects, ...about };
  await storage.put(reportKey(folder, part, piece), JSON.stringify(report));
  return true;
}

/** Trying again would be of no use. */
async function giveUp(storage: JobStorage, { folder, part, piece }: Place, unreadable: UnreadableError): Promise<void> {
  const failed: FailedPiece = { part, piece, code: unreadable.name, error: unreadable.message };
  await storage.put(failedKey(folder, part, piece), JSON.stringify(failed));
}

function reserveOf(totalMs: number): number {
  return Math.min(WRITING_MS.most, Math.max(WRITING_MS.least, totalMs * WRITING_SHARE));
}

interface ReadPiece {
  /** Undefined past the last piece. */
  readonly rows: PieceRows | undefined;
  readonly standing: Standing;
}

/** What it rejects with is met where it is awaited. */
function readPiece(
  reader: PieceReader,
  storage: JobStorage,
  place: Place,
  hasTime: () => boolean,
): Promise<ReadPiece | UnreadableError> {
  if (!Number.isFinite(place.piece)) return Promise.resolve({ rows: undefined, standing: NOTHING });
  const reading = Promise.all([reader.read(place.piece, hasTime), readStanding(storage, place)]).then(
    ([rows, standing]) => ({ rows, standing }),
    (error: unknown) => {
      if (error instanceof UnreadableError) return error;
      throw error;
    },
  );
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
