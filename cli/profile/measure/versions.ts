import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { ProfileFile } from '../../../lambda/adapters/onnx/config/profileFile.ts';
import { runtimeVersion } from '../../../lambda/adapters/onnx/config/thisMachine.ts';

export function versions(): ProfileFile['versions'] {
  return { batchscore: ownVersion(), node: process.versions.node, onnxruntime: runtimeVersion() };
}

const OWN = z.object({ name: z.literal('batchscore'), version: z.string() });
/** From the source, and from what was compiled of it. */
const PLACES = ['../../../package.json', '../../../../package.json'];

function ownVersion(): string {
  for (const place of PLACES) {
    try {
      return OWN.parse(JSON.parse(readFileSync(new URL(place, import.meta.url), 'utf8'))).version;
    } catch {}
  }
  return 'unknown';
}
