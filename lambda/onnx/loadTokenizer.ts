import { readFile, stat } from 'node:fs/promises';
import type { Tokenizer } from 'tokenizers';
import { failure, isFailure, messageOf, plural, preview } from '../core/failure.ts';
import { listNames, type Model, type TensorSpec, type Transform, type TransformBody } from '../core/model.ts';
import { decodeInputs, refuseUnknownKeys } from '../core/requestInputs.ts';
import { allocate, type Tensor } from '../core/tensor.ts';
import { WHOLE_BODY } from '../core/values.ts';
import { NO_TOKENIZERS, type RaggedConfig, type TokenizerConfig } from './modelConfig.ts';

/*
 * Makes a model of tokens one of texts: the tokenizer is a transform that decodes a text to the inputs of the model, and
 * pooling makes one vector of the vectors of its tokens.
 */

export interface LoadedTokenizer {
  readonly transform: Transform;
  /** Axis of the tokens, if it is symbolic. */
  readonly ragged: RaggedConfig | undefined;
}

/** Inputs that a tokenizer makes, and what it makes them of. */
const INPUTS = { input_ids: 'getIds', attention_mask: 'getAttentionMask', token_type_ids: 'getTypeIds' } as const;
type InputName = keyof typeof INPUTS;

/** Names of the token for padding, by the conventions of BERT and RoBERTa. */
const PADDING_TOKENS = ['[PAD]', '<pad>'];

/** Maximum number of tokens of a request, with padding: 32 MiB for each INT64 input. */
const MAX_TOKENS = 4 * 1024 * 1024;

/**
 * Opens a tokenizer for a model.
 *
 * @param path path of its `tokenizer.json`
 * @throws Error naming the file, if it is no tokenizer, its package is missing, or the model does not take tokens
 */
export async function loadTokenizer(
  path: string,
  { maxLength }: TokenizerConfig,
  inputs: readonly TensorSpec[],
): Promise<LoadedTokenizer> {
  const tokens = checkInputs(inputs);
  const { tokenizer, truncation, padding: padded } = await open(path);
  const fixed = typeof tokens === 'number' ? tokens : undefined;
  const max = Math.min(
    maxLength ?? truncation?.max_length ?? Number.POSITIVE_INFINITY,
    fixed ?? Number.POSITIVE_INFINITY,
  );
  tokenizer.disablePadding();
  if (max < Number.POSITIVE_INFINITY) {
    tokenizer.setTruncation(max, { direction: (truncation?.direction ?? 'right').toLowerCase() });
    await checkLength(tokenizer, max);
  }
  const conventional = PADDING_TOKENS.map((token) => tokenizer.tokenToId(token)).find((id) => id !== null);
  const padding = padded?.pad_id ?? conventional ?? 0;
  const padOf = (name: string): number => (name === 'input_ids' ? padding : 0);
  const decode = async (body: TransformBody) => {
    const encodings = await tokenizer.encodeBatch(textsOf(body));
    let longest = 0;
    for (const [index, encoding] of encodings.entries()) {
      const length = encoding.getLength();
      longest = Math.max(longest, length);
      if (length > 0) continue;
      const place = encodings.length === 1 ? 'text' : `text[${index}]`;
      throw failure('INVALID_DATA', `${place}: expected a text with a token, got one without; leave it out`);
    }
    const length = fixed ?? longest;
    if (encodings.length * length > MAX_TOKENS) {
      const got = `${plural(encodings.length, 'text')} padded to ${plural(length, 'token')}`;
      const cure = 'send fewer texts in a request, or set maxLength in config.json';
      throw failure('TOO_MANY_ROWS', `text: expected at most ${MAX_TOKENS} tokens in a request, got ${got}; ${cure}`);
    }
    return inputs.map(({ name, datatype }) => {
      const data = allocate(datatype, encodings.length * length) as BigInt64Array | Int32Array;
      const toElement = (value: number) => (datatype === 'INT64' ? BigInt(value) : value) as never;
      data.fill(toElement(padOf(name)));
      for (const [row, encoding] of encodings.entries()) {
        data.set(encoding[INPUTS[name as InputName]]().map(toElement) as never, row * length);
      }
      return { name, datatype, shape: [encodings.length, length], data };
    });
  };
  return {
    transform: { decode },
    ragged: fixed === undefined ? raggedOf(inputs, padOf) : undefined,
  };
}

/** @returns size or name of the axis of the tokens */
function checkInputs(inputs: readonly TensorSpec[]): number | string {
  const ids = inputs.find(({ name }) => name === 'input_ids');
  const isFit = ({ name, datatype, shape, batchAxis = 0 }: TensorSpec): boolean =>
    Object.hasOwn(INPUTS, name) &&
    (datatype === 'INT64' || datatype === 'INT32') &&
    shape.length === 2 &&
    batchAxis === 0 &&
    typeof shape[1] === typeof ids?.shape[1];
  if (ids !== undefined && inputs.every(isFit)) return ids.shape[1] as number | string;
  const got = inputs.map(({ name, datatype, shape }) => `'${name}' ${datatype} [${shape.join(', ')}]`).join(', ');
  throw new Error(
    `tokenizer: expected a model with input_ids, and no inputs but ${Object.keys(INPUTS).join(', ')}, each INT64 or INT32 ` +
      `[batch, tokens], got ${got}; name others as "constants", or write a transform`,
  );
}

/** Parts of a tokenizer.json that its library does not tell. */
interface TokenizerFile {
  readonly truncation?: { readonly max_length: number; readonly direction?: string } | null;
  readonly padding?: { readonly pad_id: number } | null;
}

/** @throws Error if the special tokens alone are more than `max` */
async function checkLength(tokenizer: Tokenizer, max: number): Promise<void> {
  const fewest = (await tokenizer.encode('a')).getLength();
  if (fewest <= max) return;
  throw new Error(
    `tokenizer: expected at least ${plural(fewest, 'token')} of a text, got ${max}; raise maxLength, or export a longer axis`,
  );
}

async function open(path: string) {
  const { Tokenizer } = await import('tokenizers').catch((cause) => {
    throw new Error(NO_TOKENIZERS, { cause });
  });
  try {
    // Reading a pipe would wait for its writer.
    if (!(await stat(path)).isFile()) throw new Error('what is not a file');
    const tokenizer = Tokenizer.fromFile(path);
    const { truncation, padding }: TokenizerFile = JSON.parse(await readFile(path, 'utf8'));
    const id = padding?.pad_id ?? 0;
    if (!(Number.isInteger(id) && id >= 0 && id < 2 ** 31)) throw new Error(`the pad_id ${id}, which is no token`);
    return { tokenizer, truncation, padding };
  } catch (cause) {
    throw new Error(
      `${path}: expected the tokenizer.json of a fast tokenizer of Hugging Face, got: ${messageOf(cause)}; save it with ` +
        'tokenizer.save_pretrained',
      { cause },
    );
  }
}

/** Declares the axis of the tokens as ragged if the inputs have one name for it. */
function raggedOf(inputs: readonly TensorSpec[], padOf: (name: string) => number): RaggedConfig | undefined {
  const axes = new Set(inputs.map(({ shape }) => shape[1] as string));
  const [axis = ''] = axes;
  return axes.size === 1 ? { axis, pad: Object.fromEntries(inputs.map(({ name }) => [name, padOf(name)])) } : undefined;
}

/** Inputs of a request in the protocol's form. */
const TEXTS = { name: 'the tokenizer', inputs: [{ name: 'text', datatype: 'BYTES', shape: ['batch'] }] } as const;
const KEYS = ['id', 'model_name', 'model_version', 'parameters', 'outputs', 'text', 'inputs', 'raw_input_contents'];

/** Returns the texts of `{"text": …}`, or of a request with one input of texts. */
function textsOf(body: TransformBody): string[] {
  const refused = refuseUnknownKeys(body, KEYS, () => WHOLE_BODY);
  if (refused !== undefined) throw refused;
  const { text, inputs, raw_input_contents: raw } = body;
  if (inputs === undefined) {
    const texts = Array.isArray(text) ? text : [text];
    if (texts.length > 0 && texts.every(isText)) return texts;
    const got = preview(texts.find((one) => !isText(one)));
    throw failure('INVALID_DATA', `text: expected a text or an array of texts, got ${got}; send one`);
  }
  const limits = { maxRequestRows: Number.POSITIVE_INFINITY, maxRequestsPerMessage: 1 };
  const decoded = decodeInputs(inputs, WHOLE_BODY, TEXTS, raw, limits);
  if (isFailure(decoded)) throw decoded;
  return decoded[0]?.data as string[];
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

/**
 * Returns a model whose outputs `[rows, tokens, width]` are pooled to `[rows, width]`.
 *
 * @param pooling `mean` over the tokens that the attention mask keeps, or `cls` for the first token
 * @throws Error if there is no such output, or nothing says which tokens are padding
 */
export function withPooling(model: Model, pooling: 'mean' | 'cls'): Model {
  const { inputs, outputs, ragged } = model;
  const isOfTokens = ({ shape }: TensorSpec, index: number): boolean =>
    ragged === undefined ? inputs.some((input) => input.shape[1] === shape[1]) : ragged.outputs[index] === 1;
  const pooled = outputs.map(
    (spec, index) => spec.shape.length === 3 && /^FP(32|64|16)$/.test(spec.datatype) && isOfTokens(spec, index),
  );
  if (!pooled.includes(true)) {
    throw new Error(
      `pooling: expected an output of floats [batch, tokens, width], got ${listNames(outputs)}; remove it, or name the axis by "cut" in "ragged"`,
    );
  }
  const mask = inputs.findIndex(({ name }) => name === 'attention_mask');
  if (pooling === 'mean' && mask < 0) {
    throw new Error(
      `pooling: expected the input attention_mask, which tells tokens from padding, got ${listNames(inputs)}; export the ` +
        'model with it, or with its pooling',
    );
  }
  return {
    ...model,
    outputs: outputs.map((spec, index) =>
      pooled[index]
        ? { ...spec, shape: [spec.shape[0] as string, spec.shape[2] as string], batchAxis: undefined }
        : spec,
    ),
    ragged: ragged && {
      ...ragged,
      outputs: ragged.outputs.map((axis, index) => (pooled[index] ? undefined : axis)),
    },
    async run(tensors, ...how) {
      // The run takes the memory of the inputs.
      const kept = pooling === 'mean' ? Uint8Array.from(tensors[mask]?.data as never, Number) : undefined;
      const ran = await model.run(tensors, ...how);
      const pool = (tensor: Tensor): Tensor => (pooling === 'cls' ? firstOf(tensor) : meanOf(tensor, kept));
      return {
        ...ran,
        outputs: ran.outputs.map((tensor, index) => (pooled[index] ? pool(tensor) : tensor)),
      };
    },
  };
}

function firstOf({ shape, data, ...rest }: Tensor): Tensor {
  const [rows = 0, tokens = 0, width = 0] = shape;
  const pooled = allocate(rest.datatype, rows * width) as Float32Array;
  for (let row = 0; row < rows; row++) {
    const from = row * tokens * width;
    pooled.set((data as Float32Array).subarray(from, from + width), row * width);
  }
  return { ...rest, shape: [rows, width], data: pooled };
}

/** @param kept 1 for each token to include. @default all */
function meanOf({ shape, data, ...rest }: Tensor, kept: Uint8Array | undefined): Tensor {
  const [rows = 0, tokens = 0, width = 0] = shape;
  const pooled = allocate(rest.datatype, rows * width) as Float32Array;
  const sums = new Float64Array(width);
  for (let row = 0; row < rows; row++) {
    sums.fill(0);
    let count = 0;
    for (let token = row * tokens; token < (row + 1) * tokens; token++) {
      if (kept?.[token] === 0) continue;
      count += 1;
      for (let at = 0; at < width; at++)
        sums[at] = (sums[at] as number) + ((data as Float32Array)[token * width + at] as number);
    }
    for (let at = 0; at < width; at++) pooled[row * width + at] = (sums[at] as number) / count;
  }
  return { ...rest, shape: [rows, width], data: pooled };
}
