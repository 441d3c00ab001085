/**
 * Words to write small ONNX models with:
 *
 *     model('x FP32[batch,4]', 'y FP32[batch,4]', [node('Softmax', 'x', 'y', { axis: 1 })])
 */

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
