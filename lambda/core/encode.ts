import { DATATYPES, type TensorData } from './datatype.ts';
import type { Failure } from './failure.ts';
import type { ScoringRequest } from './request.ts';
import type { Tensor } from './tensor.ts';

/**
 * The JSON text of one request's scores.
 *
 * @param outputs one tensor per model output, in the model's order
 */
export function encodeScores(messageId: string, request: ScoringRequest, outputs: readonly Tensor[]): string {
  const chosen = request.outputs.map((index) => encodeTensor(outputs[index] as Tensor));
  const model = `"model_name":${JSON.stringify(request.model.name)},"model_version":${JSON.stringify(request.model.version)}`;
  return `{${encodeIds(messageId, request.id)},${model},"outputs":[${chosen.join(',')}]}`;
}

/** The JSON text of an error result. */
export function encodeError(messageId: string, id: string | undefined, failed: Failure): string {
  return `{${encodeIds(messageId, id)},"code":"${failed.code}","error":${JSON.stringify(failed.message)}}`;
}

function encodeIds(messageId: string, id: string | undefined): string {
  const head = `"message_id":${JSON.stringify(messageId)}`;
  return id === undefined ? head : `${head},"id":${JSON.stringify(id)}`;
}

function encodeTensor(tensor: Tensor): string {
  const head = `"name":${JSON.stringify(tensor.name)},"datatype":"${tensor.datatype}"`;
  return `{${head},"shape":[${tensor.shape.join(',')}],"data":[${encodeData(tensor)}]}`;
}

/** Elements as JSON, comma-separated, each read back as the very same value. */
function encodeData({ datatype, data }: Tensor): string {
  switch (DATATYPES[datatype].kind) {
    case 'float':
      return needsFloatSpelling(data) ? Array.from(data as ArrayLike<number>, spellFloat).join(',') : data.join(',');
    case 'bigint':
      return Array.from(data as ArrayLike<bigint>, spellBigInt).join(',');
    case 'boolean':
      return Array.from(data as ArrayLike<number>, (element) => (element === 0 ? 'false' : 'true')).join(',');
    case 'string':
      return Array.from(data as ArrayLike<string>, (element) => JSON.stringify(element)).join(',');
    case 'integer':
      return data.join(',');
  }
}

/** Whether there is a value that JavaScript would print as something else than JSON's number: -0, NaN, ±Infinity. */
function needsFloatSpelling(data: TensorData): boolean {
  for (let i = 0; i < data.length; i++) {
    const value = data[i] as number;
    if (!Number.isFinite(value) || Object.is(value, -0)) return true;
  }
  return false;
}

/** @see https://protobuf.dev/programming-guides/json/ non-finite numbers are strings */
function spellFloat(value: number): string {
  if (Object.is(value, -0)) return '-0';
  return Number.isFinite(value) ? String(value) : `"${value}"`;
}

/** A number where a double holds it exactly, else a decimal string. */
function spellBigInt(value: bigint): string {
  return Number.isSafeInteger(Number(value)) ? String(value) : `"${value}"`;
}
