import { EPHEMERAL_STORAGE_MB as STORAGE_MB } from '../../lambda/core/limits.ts';

const MIB = 1024 * 1024;
/** What a file system keeps for itself, and what a transform may write. */
const SPARE = { share: 0.05, mb: 64 };

export interface Storage {
  /** What a function needs at least to hold the models. */
  readonly leastMb: number;
  /** What to set, as a part of a sentence; empty where nothing need be set. */
  readonly advice: string;
}

/** How much ephemeral storage models of `bytes` take. */
export function storageFor(bytes: number): Storage {
  const leastMb = Math.max(STORAGE_MB.default, Math.ceil((bytes / MIB) * (1 + SPARE.share)) + SPARE.mb);
  if (leastMb === STORAGE_MB.default) return { leastMb, advice: '' };
  const most = leastMb > STORAGE_MB.most ? `, which is more than the ${STORAGE_MB.most} that Lambda has` : '';
  return { leastMb, advice: `ephemeralStorageMb to at least ${leastMb}${most}, ` };
}
