import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/**
 * The browser that pages are opened in: the one that CHROMIUM names, else the first on the path.
 *
 * @throws Error saying what to do where there is none
 */
export function findChromium(env: NodeJS.ProcessEnv = process.env): string {
  const { CHROMIUM: given, PATH: path = '' } = env;
  const candidates = given
    ? [given]
    : path.split(delimiter).flatMap((folder) => NAMES.map((name) => join(folder, name)));
  const found = candidates.find(existsSync);
  if (found !== undefined) return found;
  throw new Error(
    `expected Chromium ${given ? `at ${given}, as CHROMIUM says` : `as one of ${NAMES.join(', ')} on the path`}, got none; ` +
      'run apt-get install chromium, or set CHROMIUM to its path',
  );
}
