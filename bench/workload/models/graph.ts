import onnxProto, { type onnx } from 'onnx-proto';
import { createRandom } from '../random.ts';

const { ModelProto, TensorProto, AttributeProto } = onnxProto.onnx;
const { DataType } = TensorProto;

const ELEMENT_TYPE = { FP32: DataType.FLOAT, INT64: DataType.INT64 } as const;

/** An input or output of the model. An axis is a size, or the name of a symbolic one. */
export interface GraphValue {
  readonly name: string;
  readonly datatype: keyof typeof ELEMENT_TYPE;
  readonly shape: readonly (number | string)[];
}

type Attributes = Readonly<Record<string, number | readonly number[]>>;

/** Puts a model together, node after node. Values are referred to by name. */
export interface GraphBuilder {
  /** Adds a node with one output. @returns the output's name, `output` if given */
  node(op: string, inputs: readonly string[], attributes?: Attributes, output?: string): string;
  /** Uniform float32 values of variance 1 / `fanIn`, so that a layer keeps the size of what it is given. */
  weights(shape: readonly number[], fanIn: number): string;
  floats(shape: readonly number[], values: readonly number[]): string;
  integers(values: readonly number[]): string;
  /** The bytes of `model.onnx`. */
  encode(inputs: readonly GraphValue[], outputs: readonly GraphValue[]): Uint8Array;
}

/** @param seed the same seed gives the same bytes */
export function buildGraph(seed: number): GraphBuilder {
  const random = createRandom(seed);
  const nodes: onnx.INodeProto[] = [];
  const constants: onnx.ITensorProto[] = [];

  const addConstant = (dataType: number, dims: readonly number[], data: Float32Array | BigInt64Array): string => {
    const name = `constant_${constants.length}`;
    constants.push({ name, dataType, dims: [...dims], rawData: new Uint8Array(data.buffer) });
    return name;
  };

  return {
    node(op, inputs, attributes = {}, output = `${op}_${nodes.length}`) {
      const attribute = Object.entries(attributes).map(([name, value]) => toAttribute(name, value));
      nodes.push({ opType: op, input: [...inputs], output: [output], attribute });
      return output;
    },
    weights(shape, fanIn) {
      const bound = Math.sqrt(3 / fanIn);
      const values = new Float32Array(shape.reduce((product, dim) => product * dim, 1));
      for (let i = 0; i < values.length; i++) values[i] = (2 * random.next() - 1) * bound;
      return addConstant(DataType.FLOAT, shape, values);
    },
    floats: (shape, values) => addConstant(DataType.FLOAT, shape, Float32Array.from(values)),
    integers: (values) => addConstant(DataType.INT64, [values.length], BigInt64Array.from(values, BigInt)),
    encode: (inputs, outputs) =>
      ModelProto.encode({
        irVersion: 10,
        producerName: 'batchscore bench',
        opsetImport: [{ domain: '', version: 21 }],
        graph: {
          name: 'graph',
          input: inputs.map(toValueInfo),
          output: outputs.map(toValueInfo),
          node: nodes,
          initializer: constants,
        },
      }).finish(),
  };
}

function toAttribute(name: string, value: number | readonly number[]): onnx.IAttributeProto {
  const { INT, INTS } = AttributeProto.AttributeType;
  return typeof value === 'number' ? { name, type: INT, i: value } : { name, type: INTS, ints: [...value] };
}

function toValueInfo({ name, datatype, shape }: GraphValue): onnx.IValueInfoProto {
  const dim = shape.map((axis) => (typeof axis === 'number' ? { dimValue: axis } : { dimParam: axis }));
  return { name, type: { tensorType: { elemType: ELEMENT_TYPE[datatype], shape: { dim } } } };
}
