import { fieldsIn } from '../../lambda/onnx/modelFile.ts';

/** An input or output as the file describes it. */
export interface FileValue {
  readonly name: string;
  /** Of the Open Inference Protocol, else as ONNX calls it. */
  readonly datatype: string;
  /** Sizes, names of symbolic axes, `?` where there is neither; undefined where the file gives none. */
  readonly shape: readonly (number | string)[] | undefined;
}

/** Fields of the messages of onnx.proto. @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
const VALUE = { name: 1, type: 2 } as const;
const TYPE_KINDS: Readonly<Record<number, string>> = { 4: 'sequence', 5: 'map', 8: 'sparse tensor', 9: 'optional' };
const TYPE_TENSOR = 1;
const TENSOR = { element: 1, shape: 2 } as const;
const SHAPE_DIM = 1;
const DIM = { value: 1, symbol: 2 } as const;

/** By the numbers of `TensorProto.DataType`. */
const ELEMENT_TYPES: Readonly<Record<number, string>> = {
  1: 'FP32',
  2: 'UINT8',
  3: 'INT8',
  4: 'UINT16',
  5: 'INT16',
  6: 'INT32',
  7: 'INT64',
  8: 'BYTES',
  9: 'BOOL',
  10: 'FP16',
  11: 'FP64',
  12: 'UINT32',
  13: 'UINT64',
  14: 'complex64',
  15: 'complex128',
  16: 'bfloat16',
  17: 'float8e4m3fn',
  18: 'float8e4m3fnuz',
  19: 'float8e5m2',
  20: 'float8e5m2fnuz',
  21: 'uint4',
  22: 'int4',
  23: 'float4e2m1',
};

/** @param bytes a `ValueInfoProto` */
export function readValue(bytes: Buffer): FileValue {
  let value: FileValue = { name: '', datatype: 'unknown', shape: undefined };
  for (const { number, start, end } of fieldsIn(bytes)) {
    if (number === VALUE.name) value = { ...value, name: bytes.toString('utf8', start, end) };
    if (number === VALUE.type) value = { ...value, ...readType(bytes.subarray(start, end)) };
  }
  return value;
}

function readType(bytes: Buffer): Omit<FileValue, 'name'> {
  for (const { number, start, end } of fieldsIn(bytes)) {
    if (number === TYPE_TENSOR) return readTensorType(bytes.subarray(start, end));
    const kind = TYPE_KINDS[number];
    if (kind !== undefined) return { datatype: kind, shape: undefined };
  }
  return { datatype: 'unknown', shape: undefined };
}

function readTensorType(bytes: Buffer): Omit<FileValue, 'name'> {
  let datatype = 'unknown';
  let shape: (number | string)[] | undefined;
  for (const { number, start, end, value } of fieldsIn(bytes)) {
    if (number === TENSOR.element) datatype = ELEMENT_TYPES[value] ?? `element type ${value}`;
    if (number === TENSOR.shape) shape = readShape(bytes.subarray(start, end));
  }
  return { datatype, shape };
}

function readShape(bytes: Buffer): (number | string)[] {
  return [...fieldsIn(bytes)]
    .filter(({ number }) => number === SHAPE_DIM)
    .map(({ start, end }) => {
      const dim = bytes.subarray(start, end);
      const [field] = fieldsIn(dim);
      if (field?.number === DIM.value) return field.value;
      return field?.number === DIM.symbol ? dim.toString('utf8', field.start, field.end) || '?' : '?';
    });
}
