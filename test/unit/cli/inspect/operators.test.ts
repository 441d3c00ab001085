import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { DataType, encodeModel, type Graph, type GraphNode } from '../../../../bench/workload/encodeModel.ts';
import { notableOperators, type OnnxFile, readOnnxFile } from '../../../../cli/inspect/onnxFile.ts';
import { DATATYPES, isDatatype } from '../../../../lambda/core/tensor.ts';
import { useFolder } from '../../../helpers/folders.ts';
import { modelWithWeightsIn, turningModel } from '../../../helpers/onnxModels.ts';

const DATATYPE_NAMES = Object.keys(DATATYPES).filter(isDatatype);
const inFolder = useFolder();

function put(bytes: Uint8Array): string {
  const path = inFolder('model.onnx');
  writeFileSync(path, bytes);
  return path;
}

function fileOf(nodes: readonly GraphNode[], more: Partial<Graph> = {}): string {
  const value = { datatype: 'FP32', shape: ['batch', undefined, 4] } as const;
  return put(encodeModel({ inputs: [{ name: 'x', ...value }], outputs: [{ name: 'y', ...value }], nodes, ...more }));
}

function node(op: string, more: Partial<GraphNode> = {}): GraphNode {
  return { op, inputs: ['x'], outputs: ['y'], ...more };
}

function countsOf({ operators }: OnnxFile): Record<string, number> {
  return Object.fromEntries(operators.map(({ name, domain, count }) => [`${domain} ${name}`, count]));
}

describe('what an ONNX file says', () => {
  it('is its inputs, its operator sets, and every node, those of loops and branches too', () => {
    const file = readOnnxFile(fileOf([node('Relu'), node('Relu'), node('Scaler', { domain: 'ai.onnx.ml' })]));
    expect(file).toMatchObject({
      inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', '?', 4] }],
    });
    expect(countsOf(file)).toEqual({ 'ai.onnx Relu': 2, 'ai.onnx.ml Scaler': 1 });
    expect(countsOf(readOnnxFile(put(turningModel())))).toEqual({
      'ai.onnx Add': 2,
      'ai.onnx Identity': 1,
      'ai.onnx Loop': 1,
      'ai.onnx Mul': 1,
      'ai.onnx ReduceMax': 1,
    });
  });

  it('is the datatype of each input', () => {
    const inputs = DATATYPE_NAMES.map((datatype) => ({ name: datatype, datatype, shape: ['batch'] }));
    const { inputs: found } = readOnnxFile(fileOf([node('Relu')], { inputs }));
    expect(found.map(({ datatype }) => datatype)).toEqual(DATATYPE_NAMES);
  });

  it('is read behind weights that are larger than what is read at a time', () => {
    const constant = { name: 'w', dataType: DataType.FLOAT, dims: [500_000], rawData: new Uint8Array(2_000_000) };
    const body: Graph = { inputs: [], outputs: [], nodes: [node('Abs')], constants: [constant] };
    const file = readOnnxFile(
      fileOf([node('If', { attributes: { then_branch: body, else_branch: body } }), node('Neg')]),
    );
    expect(countsOf(file)).toEqual({ 'ai.onnx Abs': 2, 'ai.onnx If': 1, 'ai.onnx Neg': 1 });
  });

  it('is not its weights, whether they are among its inputs or in another file', () => {
    const weights = { name: 'w', dataType: DataType.FLOAT, dims: [1], floatData: [1] };
    const inputs = ['w', 'x'].map((name) => ({ name, datatype: 'FP32', shape: ['batch'] }) as const);
    const { inputs: found } = readOnnxFile(fileOf([node('Add')], { inputs, constants: [weights] }));
    expect(found.map(({ name }) => name)).toEqual(['x']);
    writeFileSync(inFolder('weights.bin'), new Uint8Array(99));
    expect(readOnnxFile(put(modelWithWeightsIn('weights.bin'))).weights).toEqual([{ file: 'weights.bin', bytes: 99 }]);
  });
});

describe('the operators that matter', () => {
  it.each([
    [[node('LSTM')], /^recurrent/],
    [[node('Thing', { domain: 'my.domain' })], /^of a domain that ONNX Runtime has no operators of/],
    [[node('NonZero')], /^gives as many elements as the data has/],
    [[node('DequantizeLinear')], /^quantised/],
    [[node('Softmax')], /^a length that is padded must be masked here/],
    [[node('Conv')], /^one row may keep all cores busy/],
    [[node('TreeEnsembleRegressor', { domain: 'ai.onnx.ml' })], /^trees/],
    [[node('StringNormalizer')], /^needs its locale/],
    [[node('StringConcat')], /^works on strings/],
  ])('are of one kind: %j', (nodes, why) => {
    const path = fileOf([...nodes, node('Add'), node('Gather', { attributes: { axis: 0 } })]);
    const found = notableOperators(readOnnxFile(path).operators, true);
    const { op, domain } = nodes[0] as GraphNode;
    expect(found).toEqual([
      { names: [domain === undefined ? op : `${domain}:${op}`], count: 1, why: expect.stringMatching(why) },
    ]);
  });

  it('are not the functions that the model brings', () => {
    const path = fileOf([node('f', { domain: 'l' })]);
    // A FunctionProto with the name `f` and the domain `l`, as one more field of the model.
    const ofModel = Buffer.from([0xca, 0x01, 6, 0x0a, 1, 0x66, 0x52, 1, 0x6c]);
    writeFileSync(path, Buffer.concat([readFileSync(path), ofModel]));
    expect(notableOperators(readOnnxFile(path).operators, true)).toEqual([]);
  });

  it('are fewer where no length can be padded, and none in ordinary arithmetic', () => {
    const path = fileOf([node('MatMul'), node('Softmax'), node('Relu')]);
    expect(notableOperators(readOnnxFile(path).operators, false)).toEqual([]);
  });
});
