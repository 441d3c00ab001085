import type { RequestInput } from '../contract/request.ts';
import { decodeAll, isBase64Data } from '../tensor/base64.ts';
import { allocateFromSlab } from '../tensor/datatype.ts';
import { keepsOrder, moveAxis, moveDim } from '../tensor/moveAxis.ts';

/**
 * An input of a request, its rows first.
 *
 * @param input as it was sent, with its rows on `batchAxis`
 */
export function rowsFirst(input: RequestInput, batchAxis = 0): RequestInput {
  if (batchAxis === 0) return input;
  const { datatype, shape, data } = input;
  if (keepsOrder(shape, batchAxis, 0)) return { datatype, shape: moveDim(shape, batchAxis, 0), data };
  const elements = isBase64Data(data) ? decodeAll(data, datatype, shape) : data;
  return moveAxis({ datatype, shape, data: elements }, batchAxis, 0, allocateFromSlab);
}
