#!/usr/bin/env node
// The repository holds the source, the package what was compiled from it. Node 24 runs either.
import { existsSync } from 'node:fs';

const [major] = process.versions.node.split('.');
if (Number(major) < 24) {
  process.stderr.write(`batchscore: expected Node 24 or newer, got ${process.versions.node}; install Node 24\n`);
  process.exit(1);
}
const source = new URL('./batchscore.ts', import.meta.url);
await import(existsSync(source) ? source.href : new URL('../dist/cli/batchscore.js', import.meta.url).href);
