import { piecesOf, wantedFrom } from '../../core/job/cut.ts';
import { failedKey, reportKey, suspectKey } from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import type { FailedPiece, JobHead, Part } from '../../core/job/words.ts';
import type { ScoreEvent } from './scorePart.ts';

/** What a call is given when others of its part have ended without an answer. */
export interface SkipEvent extends Omit<ScoreEvent, 'action'> {
  readonly action: 'skip';
  /** As Step Functions tells it. */
  readonly error?: { readonly Error?: string | undefined; readonly Cause?: string | undefined } | undefined;
}

/**
 * Names the piece that calls have died of, and goes on after it: the first from where they began that has neither a
 * report nor this. A suspect gets further calls as long as each of them learns something.
 */
export async function skipPiece(
  { bucket, folder, part, next, error }: SkipEvent,
  storage: JobStorage,
  { pieceBytes }: JobHead,
): Promise<ScoreEvent> {
  const goOn: ScoreEvent = { action: 'score', bucket, folder, part };
  const count = piecesOf(part, pieceBytes) ?? Number.POSITIVE_INFINITY;
  const piece = await firstOpen(storage, folder, part, next?.piece ?? 0, count);
  if (piece === undefined) return goOn;
  if (part.suspect) {
    const noted = await storage.get(suspectKey(folder, part.part, piece));
    const isNews = noted !== undefined && noted !== next?.noted;
    if (isNews) return { ...goOn, next: { piece, noted } };
  }
  const failed: FailedPiece = {
    part: part.part,
    piece,
    code: error?.Error ?? 'unknown',
    error: (error?.Cause ?? 'its calls ended without an answer').slice(0, MOST_CHARACTERS),
  };
  await storage.put(failedKey(folder, part.part, piece), JSON.stringify(failed));
  const following = wantedFrom(part, piece + 1);
  return Number.isFinite(following) && following < count ? { ...goOn, next: { piece: following } } : goOn;
}

const MOST_CHARACTERS = 1000;

async function firstOpen(
  storage: JobStorage,
  folder: string,
  part: Part,
  from: number,
  count: number,
): Promise<number | undefined> {
  for (let piece = wantedFrom(part, from); piece < count; piece = wantedFrom(part, piece + 1)) {
    const isReported = (await storage.get(reportKey(folder, part.part, piece))) !== undefined;
    if (!isReported && (await storage.get(failedKey(folder, part.part, piece))) === undefined) return piece;
  }
  return undefined;
}
