import { readFileSync } from 'node:fs';
import { z } from 'zod';

const OWN = z.object({ name: z.literal('batchscore'), version: z.string() });
/** From the source, and from what was compiled of it. */
const PLACES = ['../package.json', '../../package.json'];

/** The version of this package. */
export function ownVersion(): string {
  for (const place of PLACES) {
    try {
      return OWN.parse(JSON.parse(readFileSync(new URL(place, import.meta.url), 'utf8'))).version;
    } catch {}
  }
  return 'unknown';
}
