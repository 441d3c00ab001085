import { z } from 'zod';
import { decodeAll, isBase64Data } from '../../lambda/core/base64.ts';
import { type Failure, isFailure } from '../../lambda/core/failure.ts';
import { DATATYPES, type Datatype, type TensorData } from '../../lambda/core/tensor.ts';
import { decodeData, decodeRaw } from '../../lambda/core/values.ts';
import { ScoringError } from '../base/errors.ts';

/**
 * One output: `data` holds the product of `shape` elements, row-major, in the typed array of `datatype`. 64-bit
 * integers are exact, in a BigInt64Array or BigUint64Array; BOOL is 0 and 1 in a Uint8Array; BYTES are strings.
 * It can be passed on as an input.
 */
export interface OutputTensor {
  readonly datatype: Datatype;
  /** `[rows, …]` */
  readonly shape: readonly number[];
  readonly data: TensorData;
}

export type OutputTensors = Readonly<Record<string, OutputTensor>>;

interface ResultHead {
  /** The SQS message ID of the request. */
  readonly messageId: string;
  /** The request's own `id`, if it had one. */
  readonly id?: string | undefined;
}

interface AnswerHead extends ResultHead {
  readonly model?: string | undefined;
  readonly version?: string | undefined;
}

/** The answer to a request in the canonical form. */
export interface OutputsResult extends AnswerHead {
  readonly outputs: OutputTensors;
}

/** The answer to a request in the short form: one prediction per row, as parsed from JSON. */
export interface PredictionsResult extends AnswerHead {
  readonly predictions: readonly unknown[];
}

/** The answer of a model with a transform, as parsed from JSON. */
export interface TransformResult extends AnswerHead {
  readonly result: unknown;
}

/** The request was not scored. */
export interface FailedResult extends ResultHead {
  readonly error: ScoringError;
}

export type SingleResult = OutputsResult | PredictionsResult | TransformResult | FailedResult;

/** The answers to the requests of a packed message, in their order. */
export interface PackedResult {
  readonly messageId: string;
  readonly results: readonly SingleResult[];
}

/** What became of one message. Tell the forms apart by their key: `'error' in result`, `'outputs' in result`, … */
export type ScoringResult = SingleResult | PackedResult;

const HEAD = {
  id: z.string().optional(),
  model_name: z.string().optional(),
  model_version: z.string().optional(),
};
const DATATYPE = z.enum(Object.keys(DATATYPES) as [Datatype, ...Datatype[]]);
const SHAPE = z.array(z.int().nonnegative());
const OUTPUT = z.object({ name: z.string(), datatype: DATATYPE, shape: SHAPE, data: z.unknown().optional() });
const DOCUMENT = z.union([
  z.object({ id: HEAD.id, code: z.string(), error: z.string() }),
  z.object({ ...HEAD, outputs: z.array(OUTPUT), raw_output_contents: z.array(z.string()).optional() }),
  z.object({ ...HEAD, predictions: z.array(z.unknown()) }),
  z.object({ ...HEAD, result: z.unknown() }),
]);

type OutputsDocument = Extract<z.infer<typeof DOCUMENT>, { outputs: unknown }>;

/** Decodes what was written under `messageId`. What is malformed becomes a failed result; nothing is thrown. */
export function decodeResult(messageId: string, document: unknown): ScoringResult {
  if (!Array.isArray(document)) return decodeSingle(messageId, document);
  return { messageId, results: document.map((one) => decodeSingle(messageId, one)) };
}

/** @param reason what was expected and what came */
export function invalidResult(messageId: string, reason: string, cause?: unknown): FailedResult {
  const message =
    `expected a result under message ID ${messageId}: ${reason}; ` +
    'check that the result store belongs to a batchscore deployment';
  return { messageId, error: new ScoringError('INVALID_RESULT', message, { messageId, cause }) };
}

function decodeSingle(messageId: string, document: unknown): SingleResult {
  const parsed = DOCUMENT.safeParse(document);
  if (!parsed.success) return invalidResult(messageId, 'got a JSON document of another form', parsed.error);
  const { data } = parsed;
  const { id } = data;
  const named = id === undefined ? { messageId } : { messageId, id };
  if ('code' in data) return { ...named, error: new ScoringError(data.code, data.error, named) };

  const head = { ...named, model: data.model_name, version: data.model_version };
  if ('predictions' in data) return { ...head, predictions: data.predictions };
  if ('result' in data) return { ...head, result: data.result };
  const outputs = decodeOutputs(data);
  return isFailure(outputs) ? invalidResult(messageId, outputs.message) : { ...head, outputs };
}

function decodeOutputs({ outputs, raw_output_contents: raw }: OutputsDocument): OutputTensors | Failure {
  const decoded: [string, OutputTensor][] = [];
  for (const [index, { name, datatype, shape, data: listed }] of outputs.entries()) {
    const data =
      raw === undefined
        ? decodeData(listed, datatype, shape, `outputs[${index}].data`)
        : decodeContents(raw[index], datatype, shape, `raw_output_contents[${index}]`);
    if (isFailure(data)) return data;
    decoded.push([name, { datatype, shape, data }]);
  }
  return Object.fromEntries(decoded);
}

function decodeContents(
  text: string | undefined,
  datatype: Datatype,
  shape: readonly number[],
  path: string,
): TensorData | Failure {
  const data = decodeRaw(text, datatype, shape, () => path);
  if (isFailure(data) || !isBase64Data(data)) return data;
  return decodeAll(data, datatype, shape);
}
