/**
 * Words to write small ONNX models with:
 *
 *     model('x FP32[batch,4]', 'y FP32[batch,4]', [node('Softmax', 'x', 'y', { axis: 1 })])
 */

import onnxProto, { type onnx } from 'onnx-proto';
import type { OtherValue } from '../../bench/workload/encodeModel.ts';
import {
  type Axis,
  type Constant,
  DataType,
  encodeModel,
  type GraphNode,
  type GraphValue,
} from '../../bench/workload/encodeModel.ts';
import { DATATYPES, type Datatype } from '../../lambda/core/tensor.ts';

/** @param text such as `x FP32[batch,?,4]; words BYTES[batch]`: `?` is an axis without a name */
export function values(text: string): GraphValue[] {
  return text.split('; ').map((one) => {
    const [, name = '', datatype = '', axes = ''] = /^(\S+) (\w+)\[(.*)\]$/.exec(one) ?? [];
    if (!isDatatype(datatype)) throw new Error(`expected values such as x FP32[batch,4], got ${one}`);
    return { name, datatype, shape: axes === '' ? [] : axes.split(',').map(axisOf) };
  });
}

function isDatatype(name: string): name is Datatype {
  return Object.hasOwn(DATATYPES, name);
}

function axisOf(text: string): Axis {
  if (text === '?') return undefined;
  return /^\d+$/.test(text) ? Number(text) : text;
}

export function model(
  inputs: string,
  outputs: string | readonly (GraphValue | OtherValue)[],
  nodes: readonly GraphNode[],
  constants: readonly Constant[] = [],
): Uint8Array {
  return encodeModel({
    inputs: values(inputs),
    outputs: typeof outputs === 'string' ? values(outputs) : outputs,
    nodes,
    constants,
  });
}

/** @param inputs names with blanks between them; `-` is an optional one that is left out */
export function node(op: string, inputs: string, outputs: string, attributes: GraphNode['attributes'] = {}): GraphNode {
  const named = inputs.split(' ').map((name) => (name === '-' ? '' : name));
  return { op, inputs: named, outputs: outputs.split(' '), attributes };
}

/** An operator of classical machine learning. */
export function ml(op: string, inputs: string, outputs: string, attributes: GraphNode['attributes'] = {}): GraphNode {
  return { ...node(op, inputs, outputs, attributes), domain: 'ai.onnx.ml' };
}

export function ints(name: string, ...int64Data: number[]): Constant {
  return { name, dataType: DataType.INT64, dims: [int64Data.length], int64Data };
}

export function int(name: string, value: number): Constant {
  return { name, dataType: DataType.INT64, dims: [], int64Data: [value] };
}

export function float(name: string, value: number): Constant {
  return { name, dataType: DataType.FLOAT, dims: [], floatData: [value] };
}

export function floats(name: string, ...floatData: number[]): Constant {
  return { name, dataType: DataType.FLOAT, dims: [floatData.length], floatData };
}

/** Weights that are neither equal nor ordered. */
export function weights(name: string, ...dims: number[]): Constant {
  const count = dims.reduce((product, dim) => product * dim, 1);
  const floatData = Array.from({ length: count }, (_, index) => Math.sin(3 * index + 1));
  return { name, dataType: DataType.FLOAT, dims, floatData };
}

const MICROSOFT =
  /^(QGemm|QLinear(Add|Concat|GlobalAveragePool|Softmax)|MatMulNBits|CDist|(MultiHead)?Attention|EmbedLayerNormalization|RotaryEmbedding|Tokenizer)$/;
const CLASSIC =
  /^(Linear\w+|TreeEnsemble\w+|Normalizer|Imputer|ArrayFeatureExtractor|FeatureVectorizer|OneHotEncoder|LabelEncoder|ZipMap)$/;

/**
 * Nodes and their constants, in short: `most = TopK x [2] axis=1; y = Add most w(2)`.
 *
 * Among the inputs `3` and `[3,4]` are int64, `3.5` and `[3.5,4.0]` float32, `u8(3)` and `bool[0,1]` of those types, `w(4,2)`
 * float32 and `bytes(4,2)` uint8 weights of that shape, and `-` one that is left out.
 */
export function graphOf(text: string): {
  readonly nodes: readonly GraphNode[];
  readonly constants: readonly Constant[];
} {
  const constants = new Map<string, Constant>();
  const nodes = text.split('; ').map((line): GraphNode => {
    const [outputs = '', call = ''] = line.split(' = ');
    const [op = '', ...words] = call.split(' ');
    const given = words.filter((word) => !/^\w+=/.test(word));
    for (const word of given.filter((word) => /^(-?\d|\[|(w|bytes|u8|bool)[[(])/.test(word)))
      constants.set(word, constantOf(word));
    const attributes = words.filter((word) => !given.includes(word)).map((word) => word.split(/=(.*)/));
    return {
      op,
      inputs: given.map((name) => (name === '-' ? '' : name)),
      outputs: outputs.split(','),
      attributes: Object.fromEntries(attributes.map(([name, value = '']) => [name, attributeOf(value)])),
      ...(MICROSOFT.test(op) && { domain: 'com.microsoft' }),
      ...(CLASSIC.test(op) && { domain: 'ai.onnx.ml' }),
    };
  });
  return { nodes, constants: [...constants.values()] };
}

function constantOf(name: string): Constant {
  const [, kind = '', bracket, list = name] = /^(w|bytes|u8|bool)?([[(])(.*)[\])]$/.exec(name) ?? [];
  const numbers = list.split(',').map(Number);
  if (kind === 'w') return weights(name, ...numbers);
  if (kind === 'bytes') {
    const count = numbers.reduce((product, dim) => product * dim, 1);
    const int32Data = Array.from({ length: count }, (_, index) => (37 * index) % 256);
    return { name, dataType: DataType.UINT8, dims: numbers, int32Data };
  }
  const dims = bracket === '[' ? [numbers.length] : [];
  if (kind !== '') return { name, dataType: kind === 'u8' ? DataType.UINT8 : DataType.BOOL, dims, int32Data: numbers };
  return { ...(list.includes('.') ? floats(name, ...numbers) : ints(name, ...numbers)), dims };
}

function attributeOf(text: string): number | string | readonly number[] | readonly string[] | { floats: number[] } {
  if (/^-?\d+$/.test(text)) return Number(text);
  if (!text.startsWith('[')) return text;
  const list = text.slice(1, -1).split(',');
  if (!list.every((one) => /^-?[\d.]+$/.test(one))) return list;
  return text.includes('.') ? { floats: list.map(Number) } : list.map(Number);
}

/** The same model, changed where `encodeModel` has no word for it. */
export function changed(bytes: Uint8Array, change: (proto: onnx.ModelProto) => void): Uint8Array {
  const proto = onnxProto.onnx.ModelProto.decode(bytes);
  change(proto);
  return onnxProto.onnx.ModelProto.encode(proto).finish();
}
