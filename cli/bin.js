#!/usr/bin/env node
// The repository holds the source, which its own Node 24 runs, the package what was compiled from it.
import { existsSync } from 'node:fs';

const [major] = process.versions.node.split('.');
if (Number(major) < 20) {
  process.stderr.write(`batchscore: expected Node 20 or newer, got ${process.versions.node}; install a newer Node\n`);
  process.exit(1);
}
const source = new URL('./batchscore.ts', import.meta.url);
await import(existsSync(source) ? source.href : new URL('../dist/cli/batchscore.js', import.meta.url).href);
