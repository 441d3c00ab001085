import { z } from 'zod';
import { mappingProblems, outside } from '../../../lambda/core/limits.ts';
import type { GatherLimits } from '../gather.ts';
import { LOAD_PER_SECOND } from './load.ts';
import type { Control } from './server.ts';

export interface ControlOptions {
  readonly setBatching: (limits: GatherLimits) => void;
  readonly setLoad: (perSecond: number, model: string) => void;
  /** Models whose samples may be sent. */
  readonly loadModels: readonly string[];
  /** @returns the message ID */
  readonly send: (body: string) => Promise<string>;
}

const BATCHING = z.strictObject({ batchSize: z.int(), windowSeconds: z.int() });
const LOAD = z.strictObject({ perSecond: z.int(), model: z.string().max(256) });
const ASK = z.strictObject({ body: z.string().min(1).max(60_000) });

/** What the page may do, by path. */
export function createControls({ setBatching, setLoad, loadModels, send }: ControlOptions): Record<string, Control> {
  return {
    '/batching'(body) {
      const limits = parsed(BATCHING, body, '{"batchSize": …, "windowSeconds": …}, both whole numbers');
      const problems = mappingProblems({ ...limits, fifo: false });
      if (problems.length > 0) throw new Error(problems.join('; '));
      setBatching(limits);
      return limits;
    },
    '/load'(body) {
      const { perSecond, model } = parsed(LOAD, body, '{"perSecond": …, "model": …}, a whole number and a name');
      const problem = outside('perSecond', perSecond, LOAD_PER_SECOND);
      if (problem !== undefined) throw new Error(problem);
      if (!loadModels.includes(model)) {
        const known = loadModels.join(', ') || 'a model with samples.jsonl, and there is none';
        throw new Error(`model: expected ${known}, got another; put samples.jsonl beside its versions`);
      }
      setLoad(perSecond, model);
      return { perSecond, model };
    },
    async '/ask'(body) {
      const { body: text } = parsed(ASK, body, '{"body": …}, a text of 1 to 60,000 characters');
      return { messageId: await send(text) };
    },
  };
}

function parsed<T>(schema: z.ZodType<T>, body: unknown, expected: string): T {
  const { success, data } = schema.safeParse(body);
  if (!success) throw new Error(`body: expected ${expected}, got something else`);
  return data;
}
