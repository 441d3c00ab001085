import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

const gc: (options?: { readonly type: 'minor' | 'major' }) => void = runInNewContext('gc');

/** Runs V8's garbage collector to the end. */
export function collectGarbage(): void {
  gc();
}

/** Collects what was allocated lately, so that nobody's garbage is collected on another's time. */
export function collectYoungGarbage(): void {
  gc({ type: 'minor' });
}
