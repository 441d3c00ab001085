import { join } from 'node:path';
import { z } from 'zod';
import { RANGES } from '../../core/limits.ts';
import { CONFIG_FILE } from '../../core/places.ts';
import { readJsonIfThere } from './jsonFile.ts';
import { atLeast, distinct, whole } from './numbers.ts';
import { providers } from './providers.ts';
import { sessionOptions } from './sessionOptions.ts';

const rows = whole(RANGES.maxBatchRows);

const rungs = distinct(rows, `whole numbers from ${RANGES.maxBatchRows.least} to ${RANGES.maxBatchRows.most}`);

const AXIS = 'expected the name of a symbolic axis of the model';

const byName = <T extends z.ZodType>(value: T, what: string) =>
  z.record(z.string(), value, { error: `expected an object with ${what}` });

/** An axis along which requests differ in size: they are padded to the longest of their micro-batch, and cut back. */
const ragged = z.strictObject({
  /** The symbolic axis, as the model names it. */
  axis: z.string({ error: AXIS }).min(1, { error: AXIS }),
  /** By the name of each input that has it: the element to pad with. */
  pad: byName(
    z.union([z.number(), z.boolean(), z.string()], { error: 'expected a number, true, false or text' }),
    'the element to pad with, by the name of each input that has the axis',
  ),
  /** By output name: the axis that is cut back, where the model calls it something else. @default those of that name */
  cut: byName(atLeast(0), 'the number of an axis, by the name of an output').optional(),
  /** The sizes it may be run at; a micro-batch is padded up to one, a longer request is refused. @default any */
  ladder: rungs.optional(),
});

export type RaggedConfig = z.infer<typeof ragged>;

const MODULE = 'expected the name of a .ts, .js or .mjs file beside config.json';

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
    batchAxis: byName(atLeast(0), 'the number of an axis, by the name of an input or output').optional(),
    /** The outputs to compute, in the order of answers: those of a model that gives more than rows can have. @default all */
    outputs: distinct(z.string(), 'names of outputs').optional(),
    /** By name of an input: its value in every run, a scalar or an array as in a request. Requests do not give it. @default none */
    constants: byName(z.unknown(), 'the value of an input, by its name').optional(),
    /** Whether rows share runs: always, unchecked, or never. @default what the checks at start find */
    batching: z.enum(['trust', 'alone'], { error: 'expected "trust" or "alone"' }).optional(),
    /** ONNX Runtime execution providers, first choice first: a name, or `{name, deviceId}`. @default the deployment's BATCHSCORE_PROVIDERS */
    providers: providers.optional(),
    /** The cards that the model is opened on, each in a session of its own. @default one, that of the provider */
    devices: distinct(atLeast(0), 'numbers of cards').optional(),
    /** Passed to ONNX Runtime as they are. @see https://onnxruntime.ai/docs/api/js/interfaces/InferenceSession.SessionOptions.html */
    sessionOptions: sessionOptions.optional(),
    /** Whether to run and check it at start, or the sizes of symbolic axes in these runs. @default true, sizes that it takes */
    warmup: z
      .union([z.boolean(), z.record(z.string(), atLeast(0))], {
        error: 'expected true, false or an object with sizes of symbolic axes',
      })
      .optional(),
    /** The model's own code before and after it: a module beside config.json, such as "transform.ts". */
    transform: z
      .string({ error: MODULE })
      .regex(/^[\w.-]+\.(ts|js|mjs)$/, MODULE)
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
