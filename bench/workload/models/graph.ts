import { createRandom } from '../random.ts';
import {
  type Attributes,
  type Constant,
  DataType,
  encodeModel,
  type GraphNode,
  type GraphValue,
} from './encodeModel.ts';

/** Builds a model node by node. Values are referred to by name. */
export interface GraphBuilder {
  /** Adds a node with one output. @returns the output's name, `output` if given */
  node(op: string, inputs: readonly string[], attributes?: Attributes, output?: string): string;
  /** Uniform values of variance 1 / `fanIn`, so that a layer's output is as large as its input. */
  weights(shape: readonly number[], fanIn: number): string;
  floats(shape: readonly number[], values: readonly number[]): string;
  integers(values: readonly number[]): string;
  /** The bytes of `model.onnx`. */
  encode(inputs: readonly GraphValue[], outputs: readonly GraphValue[]): Uint8Array;
}

/**
 * @param seed the same seed gives the same bytes
 * @param floats what weights and floats are
 */
export function buildGraph(seed: number, floats: 'FP16' | 'FP32' = 'FP32'): GraphBuilder {
  const random = createRandom(seed);
  const nodes: GraphNode[] = [];
  const constants: Constant[] = [];

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
    floats === 'FP32'
      ? addConstant(DataType.FLOAT, shape, values)
      : addConstant(DataType.FLOAT16, shape, Float16Array.from(values));

  return {
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
