import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

const gc: (options?: { readonly type: 'minor' | 'major' }) => void = runInNewContext('gc');

/** Runs a full garbage collection. */
export function collectGarbage(): void {
  gc();
}

/** Collects what was allocated lately, so that one contestant's garbage is not collected on another's time. */
export function collectYoungGarbage(): void {
  gc({ type: 'minor' });
}
