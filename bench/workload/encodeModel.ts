import onnxProto, { type onnx } from 'onnx-proto';
import type { Datatype } from '../../lambda/core/tensor.ts';
import { createRandom } from './random.ts';

const { ModelProto, TensorProto, AttributeProto } = onnxProto.onnx;

/** Size, name of a symbolic axis, or undefined for a dynamic axis without a name. */
export type Axis = number | string | undefined;

export interface GraphValue {
  readonly name: string;
  /** Datatype that ONNX Runtime for Node supports, or the number of another ONNX element type. */
  readonly datatype: Datatype | number;
  readonly shape: readonly Axis[];
}

export interface GraphNode {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes?: Attributes;
  /** Domain of other operators, such as `ai.onnx.ml` for classical machine learning. */
  readonly domain?: string;
}

/** Attributes of a node. A graph is the body of a loop or a branch. */
type Attributes = Readonly<
  Record<
    string,
    number | string | readonly number[] | readonly string[] | Graph | { readonly floats: readonly number[] }
  >
>;

/** Constant of the graph. @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
export type Constant = onnx.ITensorProto;

/** Value that is not a tensor: a sequence, a map, or an optional. */
export interface OtherValue {
  readonly name: string;
  readonly type: onnx.ITypeProto;
}

export interface Graph {
  readonly inputs: readonly GraphValue[];
  readonly outputs: readonly (GraphValue | OtherValue)[];
  readonly nodes: readonly GraphNode[];
  readonly constants?: readonly Constant[];
}

export const { DataType, DataLocation } = TensorProto;

/** Names of element types that differ from those of the datatypes. */
const NAMES: Partial<Record<Datatype, keyof typeof DataType>> = {
  FP16: 'FLOAT16',
  FP32: 'FLOAT',
  FP64: 'DOUBLE',
  BYTES: 'STRING',
};

export function encodeModel(graph: Graph): Uint8Array {
  return ModelProto.encode({
    irVersion: 10,
    producerName: 'batchscore',
    opsetImport: opsetsOf(graph),
    graph: toGraph(graph),
  }).finish();
}

/** Returns the operator set versions. Classical machine learning is included only if a node uses it. */
function opsetsOf({ nodes }: Graph): onnx.IOperatorSetIdProto[] {
  const domains = new Set(nodes.flatMap(({ domain }) => (domain === undefined ? [] : [domain])));
  return [{ domain: '', version: 21 }, ...[...domains].map((domain) => ({ domain, version: 3 }))];
}

function toGraph({ inputs, outputs, nodes, constants = [] }: Graph): onnx.IGraphProto {
  return {
    name: 'graph',
    input: inputs.map((value) => ({ name: value.name, type: tensorType(value) })),
    output: outputs.map((value) => ({ name: value.name, type: 'type' in value ? value.type : tensorType(value) })),
    node: nodes.map(({ op, inputs, outputs, attributes = {}, domain = '' }) => ({
      opType: op,
      domain,
      input: [...inputs],
      output: [...outputs],
      attribute: Object.entries(attributes).map(([name, value]) => toAttribute(name, value)),
    })),
    initializer: [...constants],
  };
}

export function tensorType({ datatype, shape }: Omit<GraphValue, 'name'>): onnx.ITypeProto {
  const elemType = typeof datatype === 'number' ? datatype : elementTypeOf(datatype);
  return { tensorType: { elemType, shape: { dim: shape.map(toDimension) } } };
}

function elementTypeOf(datatype: Datatype): number {
  return DataType[NAMES[datatype] ?? (datatype as keyof typeof DataType)];
}

function toDimension(axis: Axis): onnx.TensorShapeProto.IDimension {
  if (axis === undefined) return {};
  return typeof axis === 'number' ? { dimValue: axis } : { dimParam: axis };
}

function toAttribute(name: string, value: Attributes[string]): onnx.IAttributeProto {
  const { INT, INTS, FLOATS, STRING, STRINGS, GRAPH } = AttributeProto.AttributeType;
  if (typeof value === 'number') return { name, type: INT, i: value };
  if (typeof value === 'string') return { name, type: STRING, s: Buffer.from(value) };
  if ('nodes' in value) return { name, type: GRAPH, g: toGraph(value) };
  if ('floats' in value) return { name, type: FLOATS, floats: [...value.floats] };
  if (isStrings(value)) return { name, type: STRINGS, strings: value.map((text) => Buffer.from(text)) };
  return { name, type: INTS, ints: [...value] };
}

function isStrings(value: readonly number[] | readonly string[]): value is readonly string[] {
  return typeof value[0] === 'string';
}

/** Precision of a model's weights and of its arithmetic. Inputs and outputs are not affected. */
export type Precision = 'FP32' | 'FP16';

/** Builds a model node by node. Nodes refer to values by name. */
export interface GraphBuilder {
  /** Number of the ONNX element type of its weights, for casts. */
  readonly elementType: number;
  /** Adds a node with one output. @returns the output's name, `output` if given */
  node(op: string, inputs: readonly string[], attributes?: Attributes, output?: string): string;
  /** Adds uniform values of variance 1 / `fanIn`, so that a layer's output is as large as its input. */
  weights(shape: readonly number[], fanIn: number): string;
  floats(shape: readonly number[], values: readonly number[]): string;
  integers(values: readonly number[]): string;
  encode(inputs: readonly GraphValue[], outputs: readonly GraphValue[]): Uint8Array;
}

/** @param seed seed of the weights. Equal seeds give equal bytes. */
export function buildGraph(seed: number, precision: Precision = 'FP32'): GraphBuilder {
  const random = createRandom(seed);
  const nodes: GraphNode[] = [];
  const constants: Constant[] = [];
  const elementType = elementTypeOf(precision);

  const addConstant = (dataType: number, dims: readonly number[], data: ArrayBufferView): string => {
    const name = `constant_${constants.length}`;
    constants.push({
      name,
      dataType,
      dims: [...dims],
      rawData: new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
    });
    return name;
  };
  const addFloats = (shape: readonly number[], values: Float32Array): string =>
    addConstant(elementType, shape, precision === 'FP16' ? Float16Array.from(values) : values);

  return {
    elementType,
    node(op, inputs, attributes = {}, output = `${op}_${nodes.length}`) {
      nodes.push({ op, inputs, outputs: [output], attributes });
      return output;
    },
    weights(shape, fanIn) {
      const bound = Math.sqrt(3 / fanIn);
      const values = new Float32Array(shape.reduce((product, dim) => product * dim, 1));
      for (let i = 0; i < values.length; i++) values[i] = (2 * random.next() - 1) * bound;
      return addFloats(shape, values);
    },
    floats: (shape, values) => addFloats(shape, Float32Array.from(values)),
    integers: (values) => addConstant(DataType.INT64, [values.length], BigInt64Array.from(values, BigInt)),
    encode: (inputs, outputs) => encodeModel({ inputs, outputs, nodes, constants }),
  };
}
