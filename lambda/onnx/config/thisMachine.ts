import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import type { ProfileFile } from './profileFile.ts';

export function thisMachine(): ProfileFile['machine'] {
  return {
    cpu: cpus()[0]?.model.trim() || 'unknown',
    cores: availableParallelism(),
    architecture: process.arch,
    memoryBytes: totalmem(),
  };
}

/** Of the package that runs models here; `unknown` where it is not installed. */
export function runtimeVersion(): string {
  const folders = createRequire(import.meta.url).resolve.paths(RUNTIME) ?? [];
  for (const folder of folders) {
    try {
      return z
        .object({ version: z.string() })
        .parse(JSON.parse(readFileSync(join(folder, RUNTIME, 'package.json'), 'utf8'))).version;
    } catch {}
  }
  return 'unknown';
}

const RUNTIME = 'onnxruntime-node';
