import { z } from 'zod';
import { parseIfJson } from '../../lambda/core/json.ts';
import type { ScoredDigit } from './drawDigits.ts';
import type { DemoMessage } from './messages.ts';

/** Of what came back, what a person is shown. */
export interface DemoSamples {
  /** Different ones. */
  readonly digits: readonly ScoredDigit[];
  /** A result as it was written. */
  readonly result: string | undefined;
  readonly refused: { readonly code: string; readonly error: string } | undefined;
}

const MOST_DIGITS = 3;

const SCORES = z.object({
  id: z.string(),
  outputs: z.tuple([
    z.object({ name: z.literal('label'), data: z.tuple([z.number()]) }),
    z.object({ name: z.literal('probabilities'), data: z.array(z.number()) }),
  ]),
});
const REFUSAL = z.object({ id: z.string(), code: z.string(), error: z.string() });

/** @param results their bodies */
export function samplesOf(messages: readonly DemoMessage[], results: readonly string[]): DemoSamples {
  const pixelsById = new Map(messages.map(({ id, pixels }) => [id, pixels]));
  const digits = new Map<number, ScoredDigit>();
  let result: string | undefined;
  let refused: DemoSamples['refused'];
  for (const body of results) {
    const value = parseIfJson(body);
    const { data: scores } = SCORES.safeParse(value);
    refused ??= REFUSAL.safeParse(value).data;
    if (scores === undefined) continue;
    result ??= body;
    const [
      {
        data: [label],
      },
      { data: probabilities },
    ] = scores.outputs;
    const pixels = pixelsById.get(scores.id);
    const probability = probabilities[label];
    if (pixels === undefined || probability === undefined || digits.has(label)) continue;
    digits.set(label, { pixels, label, probability });
    if (digits.size === MOST_DIGITS && refused !== undefined) break;
  }
  return { digits: [...digits.values()].slice(0, MOST_DIGITS), result, refused };
}
