#!/usr/bin/env node
// The repository holds the source, which its own Node 24 runs, the package what was compiled from it.
import { existsSync } from 'node:fs';
import module from 'node:module';

/** As `engines` in package.json says. */
const OLDEST_MAJOR = 22;

const [major] = process.versions.node.split('.');
if (Number(major) < OLDEST_MAJOR) {
  process.stderr.write(
    `batchscore: expected Node ${OLDEST_MAJOR} or newer, got ${process.versions.node}; install a newer Node\n`,
  );
  process.exit(1);
}
// A second start takes a third of the time. The first releases of Node 22 cannot.
module.enableCompileCache?.();
const source = new URL('./batchscore.ts', import.meta.url);
const { main } = await import(
  existsSync(source) ? source.href : new URL('../dist/cli/batchscore.js', import.meta.url).href
);
await main();
