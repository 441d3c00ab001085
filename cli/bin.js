#!/usr/bin/env node
// The repository contains TypeScript, which Node 24 runs directly. The package contains compiled JavaScript.
import { existsSync } from 'node:fs';
import module from 'node:module';

/** Minimum major version of Node. It equals `engines` in package.json. */
const OLDEST_MAJOR = 22;

const [major] = process.versions.node.split('.');
if (Number(major) < OLDEST_MAJOR) {
  process.stderr.write(
    `batchscore: expected Node ${OLDEST_MAJOR} or newer, got ${process.versions.node}; install a newer Node\n`,
  );
  process.exit(1);
}
// The compile cache cuts the time of later starts to a third. The first releases of Node 22 lack it.
module.enableCompileCache?.();
const source = new URL('./batchscore.ts', import.meta.url);
const { main } = await import(
  existsSync(source) ? source.href : new URL('../dist/cli/batchscore.js', import.meta.url).href
);
await main();
