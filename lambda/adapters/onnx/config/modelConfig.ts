import { join } from 'node:path';
import { z } from 'zod';
import { CONFIG_FILE } from '../../../core/contract/modelFolder.ts';
import { readJsonIfThere } from './jsonFile.ts';
import { providers } from './providers.ts';
import { sessionOptions } from './sessionOptions.ts';

const rows = z.int().min(1).max(65_536);

const rungs = z
  .array(rows)
  .min(1)
  .refine((list) => new Set(list).size === list.length, 'expected each rung once');

/** An axis along which requests differ in size: they are padded to the longest of their micro-batch, and cut back. */
const ragged = z.strictObject({
  /** The symbolic axis, as the model names it. */
  axis: z.string().min(1),
  /** By the name of each input that has it: the element to pad with. */
  pad: z.record(z.string(), z.union([z.number(), z.boolean(), z.string()])),
  /** By output name: the axis that is cut back, where the model calls it something else. @default those of that name */
  cut: z.record(z.string(), z.int().min(0)).optional(),
  /** The sizes it may be run at; a micro-batch is padded up to one, a longer request is refused. @default any */
  ladder: rungs.optional(),
});

export type RaggedConfig = z.infer<typeof ragged>;

/** What `models/<name>/config.json` may say. Everything is optional, unknown keys are errors. */
const schema = z
  .strictObject({
    /** Most rows in one run of this model. @default the deployment's BATCHSCORE_MAX_BATCH_ROWS */
    maxBatchRows: rows.optional(),
    /** The row counts the model may be run at; a micro-batch is padded up to one of them. @default any */
    ladder: rungs.optional(),
    /** The axis along which requests may differ in size. @default none: only requests of one shape share a run */
    ragged: ragged.optional(),
    /**
     * By name of an input or output: which of its axes is the batch axis, such as 1 for the state `[layers, batch, hidden]`
     * of an RNN. Requests and answers have it there too. @default 0 for each
     */
    batchAxis: z.record(z.string(), z.int().min(0)).optional(),
    /** By name of an input: its value in every run, a scalar or an array as in a request. Requests do not give it. @default none */
    constants: z.record(z.string(), z.unknown()).optional(),
    /** Whether rows share runs: always, unchecked, or never. @default what the checks at start find */
    batching: z.enum(['trust', 'alone']).optional(),
    /** ONNX Runtime execution providers, first choice first: a name, or `{name, deviceId}`. @default the deployment's BATCHSCORE_PROVIDERS */
    providers: providers.optional(),
    /** The cards that the model is opened on, each in a session of its own. @default one, that of the provider */
    devices: z
      .array(z.int().min(0))
      .min(1)
      .refine((list) => new Set(list).size === list.length, 'expected each card once')
      .optional(),
    /** Passed to ONNX Runtime as they are. @see https://onnxruntime.ai/docs/api/js/interfaces/InferenceSession.SessionOptions.html */
    sessionOptions: sessionOptions.optional(),
    /** Whether to run and check it at start, or the sizes of symbolic axes in these runs. @default true, sizes that it takes */
    warmup: z.union([z.boolean(), z.record(z.string(), z.int().min(1))]).optional(),
    /** The model's own code before and after it: a module beside config.json, such as "transform.ts". */
    transform: z
      .string()
      .regex(/^[\w.-]+\.(ts|js|mjs)$/, 'expected the name of a .ts, .js or .mjs file beside config.json')
      .optional(),
  })
  .superRefine(({ devices, providers = [] }, context) => {
    if (devices === undefined || providers.every(({ deviceId }) => deviceId === undefined)) return;
    const message = 'expected no deviceId in "providers" beside it, got one; remove either';
    context.addIssue({ code: 'custom', path: ['devices'], message });
  });

export type ModelConfig = z.infer<typeof schema>;

/**
 * The settings in a model's folder, or none where it has no config.json.
 *
 * @throws Error naming the file and every wrong key
 */
export function readModelConfig(folder: string): ModelConfig {
  return readJsonIfThere(join(folder, CONFIG_FILE), schema, 'model configuration') ?? {};
}
