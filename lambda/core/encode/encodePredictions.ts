import { elementsPerRow, type Tensor, viewOf } from '../tensor/tensor.ts';
import { encodeData } from './encodeData.ts';

/** One prediction per row: the output's values, or an object by output name where there are several. */
export function encodePredictions(outputs: readonly Tensor[], fromRow: number, rows: number): string {
  const predictions = Array.from({ length: rows }, (_, row) => {
    const values = outputs.map((output) => encodeRow(output, fromRow + row));
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
