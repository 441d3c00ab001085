import { readFileSync, realpathSync } from 'node:fs';
import { join, sep } from 'node:path';
import * as z from 'zod';
import { hasCode, messageOf } from '../core/failure.ts';
import { type Range, wholeNumberIn } from '../core/limits.ts';
import { CONFIG_FILE } from '../core/places.ts';
import { IN_OUR_WORDS, nearestName, problemsIn } from '../core/wrongValue.ts';
import { SETTINGS } from '../settings.ts';
import { hasDevices } from './provider.ts';
import { sessionSettings } from './sessionOrders.ts';

/* Schemas for numbers and lists with plain error messages. */

function whole(range: Range) {
  const error = `expected ${wholeNumberIn(range)}`;
  return z.int({ error }).min(range.min, { error }).max(range.max, { error });
}

/** Schema of an integer, such as the number or size of an axis. */
function atLeast(min: number) {
  const error = `expected a whole number of at least ${min}`;
  return z.int({ error }).min(min, { error });
}

/** Schema of a non-empty array without duplicates. @param of description of the items, such as `numbers of devices` */
function distinct<T extends z.ZodType>(item: T, of: string) {
  const error = `expected an array of ${of}`;
  return z
    .array(item, { error })
    .min(1, { error: `${error} with at least one` })
    .refine((list) => new Set(list).size === list.length, { error: `${error}, each once` });
}

const provider = z
  .looseObject(
    { name: z.string({ error: 'expected the name of a provider, such as "cuda"' }), deviceId: atLeast(0).optional() },
    { error: 'expected the name of a provider, or an object with it' },
  )
  .superRefine(({ name, ...options }, context) => {
    const passedOn = hasDevices(name) ? ['deviceId'] : [];
    const ignored = Object.keys(options).filter((key) => !passedOn.includes(key));
    if (ignored.length === 0) return;
    const message =
      `expected ${passedOn.length === 0 ? 'no option' : 'deviceId alone'} of '${name}', got ${ignored.join(', ')}, ` +
      'which ONNX Runtime for Node would ignore; remove it';
    context.addIssue({ code: 'custom', message });
  })
  .transform(({ name, deviceId }) => (deviceId === undefined ? { name } : { name, deviceId }));

const LIST = 'expected an array of execution providers, such as ["cuda", "cpu"]';

const nameToObject = (given: unknown): unknown => (typeof given === 'string' ? { name: given } : given);

/** Execution providers, first choice first: names, or objects with a device. */
const providers = z.array(z.preprocess(nameToObject, provider), { error: LIST }).min(1, { error: LIST });

/** Session options of ONNX Runtime, except for the execution providers, which have their own key. */
export const SESSION_OPTIONS = [
  'enableCpuMemArena',
  'enableMemPattern',
  'enableProfiling',
  'executionMode',
  'extra',
  'graphOptimizationLevel',
  'interOpNumThreads',
  'intraOpNumThreads',
  'logId',
  'logSeverityLevel',
  'preferredOutputLocation',
  'profileFilePrefix',
];

/** Options that ONNX Runtime for Node accepts because of browsers, but ignores. */
export const IGNORED_OPTIONS = ['enableGraphCapture', 'freeDimensionOverrides', 'logVerbosityLevel'];

/** Options that name further files. Such files would be missing from the digest and from published models. */
export const FILE_OPTIONS = ['externalData', 'optimizedModelFilePath'];

/** Matches session settings that name files, such as `session.model_external_initializers_file_folder_path`. */
const FILE_SETTING = /(?<!pro)file|path/;

/**
 * Session options. ONNX Runtime checks their values and ignores unknown keys, even misspelt ones. `extra` has its
 * session settings, such as `{"session": {"use_device_allocator_for_initializers": "1"}}`.
 *
 * @see
 *   https://github.com/microsoft/onnxruntime/blob/main/include/onnxruntime/core/session/onnxruntime_session_options_config_keys.h
 */
const sessionOptions = z
  .looseObject(
    {
      extra: z
        .record(z.string(), z.unknown(), { error: "expected an object with ONNX Runtime's session settings" })
        .optional(),
    },
    { error: "expected an object with ONNX Runtime's session options" },
  )
  .superRefine((options, context) => {
    for (const key of Object.keys(options)) {
      const message = whyNot(key);
      if (message !== undefined) context.addIssue({ code: 'custom', path: [key], message });
    }
    for (const key of Object.keys(sessionSettings(options.extra)).filter((name) => FILE_SETTING.test(name))) {
      context.addIssue({ code: 'custom', path: ['extra', key], message: namesFile(key) });
    }
  });

function whyNot(key: string): string | undefined {
  if (SESSION_OPTIONS.includes(key)) return undefined;
  if (key === 'executionProviders') {
    return 'expected none here, got it; use the key "providers" instead of executionProviders';
  }
  if (IGNORED_OPTIONS.includes(key)) {
    return `expected an option that ONNX Runtime for Node reads, got ${key}, which it would ignore; remove it`;
  }
  if (FILE_OPTIONS.includes(key)) return namesFile(key);
  const nearest = nearestName(key, SESSION_OPTIONS);
  const cure = nearest === undefined ? 'correct or remove it' : `did you mean ${nearest}?`;
  return `expected keys among ${SESSION_OPTIONS.join(', ')}, got ${key}; ${cure}`;
}

function namesFile(key: string): string {
  return `expected a model that lies in its folder with all its weights, got ${key}, which names another file; remove it`;
}

const rows = whole(SETTINGS.maxBatchRows);

const allowedSizes = distinct(rows, `whole numbers from ${SETTINGS.maxBatchRows.min} to ${SETTINGS.maxBatchRows.max}`);

const AXIS = 'expected the name of a symbolic axis of the model';

const byName = <T extends z.ZodType>(value: T, what: string) =>
  z.record(z.string(), value, { error: `expected an object with ${what}` });

/** Axis on which requests differ in size. They are padded to the longest of their run, and outputs are cut back. */
const ragged = z.strictObject({
  /** Name of the symbolic axis in the model. */
  axis: z.string({ error: AXIS }).min(1, { error: AXIS }),
  /** Element to pad with, by name of each input that has the axis. */
  pad: byName(
    z.union([z.number(), z.boolean(), z.string()], { error: 'expected a number, true, false or text' }),
    'the element to pad with, by the name of each input that has the axis',
  ),
  /** Axis to cut back by output name, if its name differs. @default the axes of that name */
  cut: byName(atLeast(0), 'the number of an axis, by the name of an output').optional(),
  /** Allowed sizes. A micro-batch is padded to one, and a longer request is refused. @default any */
  allowedSizes: allowedSizes.optional(),
});

export type RaggedConfig = z.infer<typeof ragged>;

const TOKENIZER = 'expected the name of a .json file beside config.json, or an object with it as "file"';

/** Tokenizer of Hugging Face that turns texts into the inputs of the model. */
const tokenizer = z.preprocess(
  (given: unknown) => (typeof given === 'string' ? { file: given } : given),
  z.strictObject(
    {
      file: z.string({ error: TOKENIZER }).regex(/^[\w.-]+\.json$/, TOKENIZER),
      /** Maximum number of tokens of a text, with special ones. Others are cut off. @default that of the file, or none */
      maxLength: atLeast(1).optional(),
      /** One vector for each text: the mean over its tokens, or the vector of the first. @default one for each token */
      pooling: z.enum(['mean', 'cls'], { error: 'expected "mean" or "cls"' }).optional(),
    },
    { error: TOKENIZER },
  ),
);

export type TokenizerConfig = z.infer<typeof tokenizer>;

const MODULE = 'expected the name of a .ts, .js or .mjs file beside config.json';

/** Content of `models/<name>/config.json`. All keys are optional, and unknown keys are errors. */
const schema = z
  .strictObject({
    /** Maximum number of rows in one run. @default the deployment's BATCHSCORE_MAX_BATCH_ROWS */
    maxBatchRows: rows.optional(),
    /** Allowed row counts. A micro-batch is padded to one of them. @default any */
    allowedSizes: allowedSizes.optional(),
    /** Axis on which requests may differ in size. @default none: only requests of one shape share a run */
    ragged: ragged.optional(),
    /**
     * Batch axis by name of an input or output, such as 1 for the state `[layers, batch, hidden]` of an RNN. Requests
     * and answers have the same layout. @default 0 for each
     */
    batchAxis: byName(atLeast(0), 'the number of an axis, by the name of an input or output').optional(),
    /** Outputs to compute, in the order of answers, for a model with outputs that have no rows. @default all */
    outputs: distinct(z.string(), 'names of outputs').optional(),
    /**
     * Value in every run by name of an input: a scalar or an array as in a request. Requests do not contain it.
     * @default none
     */
    constants: byName(z.unknown(), 'the value of an input, by its name').optional(),
    /**
     * Sharing of runs: always without checks (`trust`), or never (`alone`). @default the result of the checks at start
     */
    batching: z.enum(['trust', 'alone'], { error: 'expected "trust" or "alone"' }).optional(),
    /**
     * ONNX Runtime execution providers, first choice first: a name, or `{name, deviceId}`.
     * @default the deployment's BATCHSCORE_PROVIDERS
     */
    providers: providers.optional(),
    /** Devices to open the model on, each with its own session. @default one, the provider's */
    devices: distinct(atLeast(0), 'numbers of devices').optional(),
    /**
     * Options for ONNX Runtime.
     * @see https://onnxruntime.ai/docs/api/js/interfaces/InferenceSession.SessionOptions.html
     */
    sessionOptions: sessionOptions.optional(),
    /**
     * True to run and check the model at start, or the sizes of symbolic axes in these runs.
     * @default true, with sizes at which it runs
     */
    warmup: z
      .union([z.boolean(), z.record(z.string(), atLeast(0))], {
        error: 'expected true, false or an object with sizes of symbolic axes',
      })
      .optional(),
    /** Makes requests texts: `tokenizer.json`, or an object with options. @default requests have the model's inputs */
    tokenizer: tokenizer.optional(),
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
 * Reads the settings in a model's folder. Returns no settings if it has no config.json.
 *
 * @throws Error naming the file and every wrong key
 */
export function readModelConfig(folder: string): ModelConfig {
  return readJsonIfThere(join(folder, CONFIG_FILE), schema, 'model configuration') ?? {};
}

/**
 * Returns the path of the transform in config.json, if it has one.
 *
 * @throws Error naming the file if it is missing, or a link to a file outside of the model's folder
 */
export function transformPath(folder: string, { transform }: ModelConfig): string | undefined {
  return transform === undefined ? undefined : pathBeside(folder, transform, 'module');
}

/** Returns the path of the tokenizer in config.json, if it has one. @throws Error like {@link transformPath} */
export function tokenizerPath(folder: string, { tokenizer }: ModelConfig): string | undefined {
  return tokenizer === undefined ? undefined : pathBeside(folder, tokenizer.file, 'tokenizer');
}

/** npm omits an optional package silently. */
export const NO_TOKENIZERS =
  'expected the package tokenizers, which "tokenizer" needs, got none; run npm install tokenizers, and deploy again if models ' +
  'are not built into the image';

function pathBeside(folder: string, file: string, what: string): string {
  const path = join(folder, file);
  const real = realPath(path);
  if (real === undefined) throw new Error(`${path}: expected the ${what} that config.json names, got none; add it`);
  if (real.startsWith(`${realPath(folder)}${sep}`)) return path;
  throw new Error(
    `${path}: expected the ${what} that config.json names in the model's folder, got a link to ${real}; put the file there`,
  );
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch (error) {
    if (isNotThere(error)) return undefined;
    throw error;
  }
}

const MAX_WRONG = 10;

/**
 * Reads a short JSON file, or returns undefined if it does not exist. It is synchronous because a CDK app cannot wait.
 *
 * @param what content of the file, such as `model configuration`
 * @throws Error naming the file and up to ten problems in it, in one line
 */
export function readJsonIfThere<T>(path: string, schema: z.ZodType<T>, what: string): T | undefined {
  const text = readIfThere(path);
  if (text === undefined) return undefined;
  const value = parseJson(text, path);
  const parsed = schema.safeParse(value, IN_OUR_WORDS);
  if (parsed.success) return parsed.data;
  const wrong = problemsIn(parsed.error.issues, value);
  const more = wrong.length > MAX_WRONG ? `; and ${wrong.length - MAX_WRONG} more` : '';
  throw new Error(`${path}: not a valid ${what}: ${wrong.slice(0, MAX_WRONG).join('; ')}${more}`);
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isNotThere(error)) return undefined;
    throw new Error(`${path}: expected a JSON file, got one that cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

export function isNotThere(error: unknown): boolean {
  return hasCode(error, 'ENOENT');
}

function parseJson(text: string, path: string): unknown {
  try {
    // Windows editors write a byte order mark.
    return JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (cause) {
    throw new Error(`${path}: expected JSON, got something else; fix it or delete the file`, { cause });
  }
}
