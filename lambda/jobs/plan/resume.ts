import { piecesOf } from '../../core/job/cut.ts';
import {
  cancelledKey,
  failedKeys,
  failureKey,
  manifestKey,
  placeIn,
  planKey,
  reportKeys,
} from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import type { JobHead, Part } from '../../core/job/words.ts';
import { linesOfPlan, readParts } from './planObjects.ts';

/**
 * Plans the pieces that have no report. What ended the job before is removed first: it is not done any more, and nothing
 * has failed yet. Those that were given up are suspects, and tried with care.
 */
export async function planWhatIsMissing(
  storage: JobStorage,
  folder: string,
  head: JobHead,
  run: number,
): Promise<void> {
  const key = planKey(folder, run);
  if ((await storage.get(key)) !== undefined) return;
  const reported = await placesUnder(storage, reportKeys(folder));
  const failed = await placesUnder(storage, failedKeys(folder));
  const parts = await readParts(storage, planKey(folder, 1));
  const missing = parts.flatMap((part) => missingOf(part, head, reported, failed));
  for (const gone of [manifestKey, failureKey, cancelledKey]) await storage.remove(gone(folder));
  const given: string[] = [];
  for await (const { key: one } of storage.list(failedKeys(folder))) given.push(one);
  for (const one of given) await storage.remove(one);
  // Nothing is missing: the map is given a part without pieces, and the job is finished anew.
  await storage.put(key, linesOfPlan(missing.length > 0 ? missing : [{ part: 0, start: 0, end: 0, only: [] }]));
}

/** The pieces that a part lacks, as a part; those that were given up before as another one. */
function missingOf(
  part: Part,
  { pieceBytes }: JobHead,
  reported: ReadonlyMap<number, ReadonlySet<number>>,
  failed: ReadonlyMap<number, ReadonlySet<number>>,
): Part[] {
  const done = reported.get(part.part) ?? NONE;
  const given = failed.get(part.part) ?? NONE;
  const count = piecesOf(part, pieceBytes);
  if (count === undefined) return [{ ...part, except: [...done], ...(given.size > 0 ? { suspect: true } : {}) }];
  const left = Array.from({ length: count }, (_, piece) => piece).filter((piece) => !done.has(piece));
  const suspects = left.filter((piece) => given.has(piece));
  const others = left.filter((piece) => !given.has(piece));
  return [
    ...(others.length > 0 ? [{ ...part, only: others }] : []),
    ...(suspects.length > 0 ? [{ ...part, only: suspects, suspect: true as const }] : []),
  ];
}

const NONE: ReadonlySet<number> = new Set();

async function placesUnder(storage: JobStorage, prefix: string): Promise<Map<number, Set<number>>> {
  const places = new Map<number, Set<number>>();
  for await (const { key } of storage.list(prefix)) {
    const place = placeIn(key);
    if (place === undefined) continue;
    const pieces = places.get(place.part) ?? new Set();
    places.set(place.part, pieces.add(place.piece));
  }
  return places;
}
