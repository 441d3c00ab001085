import { encodeData } from './encodeData.ts';
import { type Failure, failure, reasonOf } from './failure.ts';
import { encodeRaw } from './rawData.ts';
import type { ScoringRequest } from './request.ts';
import { elementsPerRow, type Tensor, viewOf } from './tensor.ts';
import type { Transform, TransformOutputs } from './transform.ts';

/**
 * The JSON text of one request's scores, in the form that was asked for, or why the model's transform gave none.
 *
 * @param outputs one tensor per model output, in the model's order
 */
export function encodeScores(
  messageId: string,
  request: ScoringRequest,
  outputs: readonly Tensor[],
): string | Failure | Promise<string | Failure> {
  const { model, id } = request;
  const chosen = request.outputs.map((index) => outputs[index] as Tensor);
  const head =
    `${encodeIds(messageId, id)},"model_name":${JSON.stringify(model.name)},` +
    `"model_version":${JSON.stringify(model.version)}`;
  if (model.transform?.encode !== undefined) return encodeOwnForm(head, chosen, model.transform);
  switch (request.reply) {
    case 'json':
      return `{${head},"outputs":[${chosen.map(encodeTensor).join(',')}]}`;
    case 'binary':
      return `{${head},${encodeBinary(chosen)}}`;
    case 'predictions':
      return `{${head},"predictions":[${encodePredictions(chosen, request.rows)}]}`;
  }
}

/** The JSON text of an error result. */
export function encodeError(messageId: string, id: string | undefined, failed: Failure): string {
  return `{${encodeIds(messageId, id)},"code":"${failed.code}","error":${JSON.stringify(failed.message)}}`;
}

function encodeIds(messageId: string, id: string | undefined): string {
  const head = `"message_id":${JSON.stringify(messageId)}`;
  return id === undefined ? head : `${head},"id":${JSON.stringify(id)}`;
}

async function encodeOwnForm(
  head: string,
  outputs: readonly Tensor[],
  transform: Transform,
): Promise<string | Failure> {
  try {
    const text = JSON.stringify(await transform.encode?.(ownOutputs(outputs)), spellExactly);
    if (text !== undefined) return `{${head},"result":${text}}`;
    return failure('TRANSFORM_FAILED', "expected a value that JSON can hold from the transform's encode, got none");
  } catch (error) {
    return failure('TRANSFORM_FAILED', `the transform's encode: ${reasonOf(error)}`);
  }
}

/** Copies: what one request's transform does to its outputs is nothing to its neighbours. */
function ownOutputs(outputs: readonly Tensor[]): TransformOutputs {
  return Object.fromEntries(
    outputs.map(({ name, datatype, shape, data }) => [name, { datatype, shape, data: data.slice() }]),
  );
}

/** For `JSON.stringify`: what JSON would make null of, or refuse, in the spelling of every other result. */
function spellExactly(_key: string, value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  return ArrayBuffer.isView(value) && !(value instanceof DataView) ? Array.from(value as Uint8Array) : value;
}

function encodeTensor(tensor: Tensor): string {
  return `{${describe(tensor)},"data":[${encodeData(tensor.datatype, tensor.data)}]}`;
}

function encodeBinary(outputs: readonly Tensor[]): string {
  const described = outputs.map((tensor) => `{${describe(tensor)}}`);
  const contents = outputs.map((tensor) => `"${encodeRaw(tensor.data)}"`);
  return `"outputs":[${described.join(',')}],"raw_output_contents":[${contents.join(',')}]`;
}

function describe({ name, datatype, shape }: Tensor): string {
  return `"name":${JSON.stringify(name)},"datatype":"${datatype}","shape":[${shape.join(',')}]`;
}

/** One prediction per row: the output's values, or an object by output name where there are several. */
function encodePredictions(outputs: readonly Tensor[], rows: number): string {
  const predictions = Array.from({ length: rows }, (_, row) => {
    const values = outputs.map((output) => encodeRow(output, row));
    if (values.length === 1) return values[0];
    return `{${values.map((value, index) => `${JSON.stringify(outputs[index]?.name)}:${value}`).join(',')}}`;
  });
  return predictions.join(',');
}

function encodeRow({ shape, datatype, data }: Tensor, row: number): string {
  const rowElements = elementsPerRow(shape);
  const elements = viewOf(data, row * rowElements, (row + 1) * rowElements);
  return nest(datatype, elements, shape.slice(1));
}

/** Elements nested as `shape` says; a scalar for `[]`. */
function nest(datatype: Tensor['datatype'], elements: Tensor['data'], shape: readonly number[]): string {
  if (shape.length <= 1)
    return shape.length === 0 ? encodeData(datatype, elements) : `[${encodeData(datatype, elements)}]`;
  const [outer = 0, ...inner] = shape;
  const size = outer === 0 ? 0 : elements.length / outer;
  const slices = Array.from({ length: outer }, (_, index) => viewOf(elements, index * size, (index + 1) * size));
  return `[${slices.map((slice) => nest(datatype, slice, inner)).join(',')}]`;
}
