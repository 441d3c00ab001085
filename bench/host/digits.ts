import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { createTally } from '../../cli/demo/tally.ts';
import { type LocalStack, startLocalStack } from '../../cli/local/localStack.ts';

const MODELS = fileURLToPath(new URL('../../models', import.meta.url));
const SAMPLE = z.object({ pixels: z.array(z.number()) });

/** The local host with the digits model; what it warns of goes to stderr. */
export function startDigits(): Promise<LocalStack> {
  return startLocalStack({
    port: 0,
    modelsDirectory: MODELS,
    defaultModel: 'digits',
    environment: process.env,
    telemetry: createTally(warn),
    warn,
  });
}

/** A request for one digit. */
export async function digitRequest(): Promise<string> {
  const text = await readFile(`${MODELS}/digits/held-out.jsonl`, 'utf8');
  const { pixels } = SAMPLE.parse(JSON.parse(text.slice(0, text.indexOf('\n'))));
  return JSON.stringify({ instances: [pixels] });
}

export function warn(message: unknown): void {
  process.stderr.write(`${String(message)}\n`);
}
