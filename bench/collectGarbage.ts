import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

/** Runs V8's garbage collector to the end, so that nobody's garbage is collected on another's time. */
export const collectGarbage: () => void = runInNewContext('gc');
