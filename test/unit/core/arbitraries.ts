import fc from 'fast-check';
import { DATATYPE_NAMES, DATATYPES, type Datatype, type TensorData } from '../../../lambda/core/tensor.ts';

export const EVERY_DATATYPE = DATATYPE_NAMES as readonly Datatype[];

/** Strings that ONNX Runtime for Node carries: well-formed, without NUL; control characters and U+FFFF among them. */
const anyString = fc
  .array(fc.oneof(fc.integer({ min: 1, max: 0xffff }), fc.constantFrom(0x1f, 0x22, 0x5c, 0xd800, 0xdfff, 0xffff)))
  .map((units) => String.fromCharCode(...units).toWellFormed());

/** Floats of 16 bits by their bits; NaN has one payload, as it has none in JSON. */
const anyHalf = fc.integer({ min: 0, max: 0xffff }).map((bits) => {
  const [value = 0] = new Float16Array(Uint16Array.of(bits).buffer);
  return Number.isNaN(value) ? Number.NaN : value;
});

function elementOf(datatype: Datatype): fc.Arbitrary<number | bigint | string> {
  const info = DATATYPES[datatype];
  switch (info.kind) {
    case 'string':
      return anyString;
    case 'bigint':
      return fc.bigInt({ min: info.min, max: info.max });
    case 'boolean':
    case 'integer':
      return fc.integer({ min: info.min, max: info.max });
    case 'float':
      return datatype === 'FP16' ? anyHalf : datatype === 'FP32' ? fc.float() : fc.double();
  }
}

/** `length` elements of `datatype`, extremes included. */
export function dataOf(datatype: Datatype, length: number): fc.Arbitrary<TensorData> {
  const elements = fc.array(elementOf(datatype), { minLength: length, maxLength: length });
  return elements.map((values) => {
    const info = DATATYPES[datatype];
    if (info.kind === 'string') return values as string[];
    return info.kind === 'bigint' ? info.array.from(values as bigint[]) : info.array.from(values as number[]);
  });
}

/** The elements as text that tells every two different values apart, -0 from 0 included. */
export function bitsOf(data: TensorData): string {
  return Array.isArray(data)
    ? JSON.stringify(data)
    : Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex');
}
