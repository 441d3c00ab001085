import {
  type Axis,
  buildGraph,
  type Constant,
  DataLocation,
  DataType,
  encodeModel,
  type Graph,
  tensorType,
} from '../../bench/workload/encodeModel.ts';
import type { Datatype } from '../../lambda/core/tensor.ts';
import { floats, graphOf, int, ints, model, node, values } from './graph.ts';

/** ONNX element types that no datatype stands for. @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
export const ELEMENT_TYPE = { bfloat16: 16, int4: 22 } as const;

const AXIS_1 = ints('axis_1', 1);

/** `y` is `x`. */
export function identityModel(
  datatype: Datatype | number = 'FP32',
  shape: readonly Axis[] = ['batch', 3],
  x = 'x',
): Uint8Array {
  const value = { datatype, shape };
  return encodeModel({
    inputs: [{ name: x, ...value }],
    outputs: [{ name: 'y', ...value }],
    nodes: [node('Identity', x, 'y')],
  });
}

/** Adds three numbers, which lie in another file, to float32 `[batch, 3]`. */
export function modelWithWeightsIn(location: string, bytes = 12): Uint8Array {
  return model('x FP32[batch,3]', 'y FP32[batch,3]', [node('Add', 'x w', 'y')], [weightsIn(location, bytes)]);
}

/** The same within the branches of a condition that holds. */
export function branchWithWeightsIn(location: string): Uint8Array {
  const branch = (): Graph => ({
    inputs: [],
    outputs: values('z FP32[batch,3]'),
    nodes: [node('Add', 'x w', 'z')],
    constants: [weightsIn(location, 12)],
  });
  return model(
    'x FP32[batch,3]',
    'y FP32[batch,3]',
    [node('If', 'yes', 'y', { then_branch: branch(), else_branch: branch() })],
    [{ name: 'yes', dataType: DataType.BOOL, dims: [], int32Data: [1] }],
  );
}

/** @see https://github.com/onnx/onnx/blob/main/docs/ExternalData.md */
function weightsIn(location: string, bytes: number): Constant {
  const entries = Object.entries({ location, offset: '0', length: String(bytes) });
  const externalData = entries.map(([key, value]) => ({ key, value }));
  return { name: 'w', dataType: DataType.FLOAT, dims: [3], dataLocation: DataLocation.EXTERNAL, externalData };
}

/** `sum` is `a + b`, `difference` is `a - b`: float32, axis 0 of `a` and `b` as given, 2 columns. */
export function sumAndDifferenceModel(rowsOfA: Axis = 'batch', rowsOfB: Axis = 'batch'): Uint8Array {
  return model(`a FP32[${rowsOfA},2]; b FP32[${rowsOfB},2]`, `sum FP32[${rowsOfA},2]; difference FP32[${rowsOfA},2]`, [
    node('Add', 'a b', 'sum'),
    node('Sub', 'a b', 'difference'),
  ]);
}

/** Calls its batch axis dynamic, and reshapes to one row inside. float32 `[batch, 3]` in and out. */
export function oneRowOnlyModel(): Uint8Array {
  return rowsOnlyModel(1);
}

/** Calls its batch axis dynamic, and reshapes to so many rows inside. float32 `[batch, 3]` in and out. */
export function rowsOnlyModel(rows: number): Uint8Array {
  return model('x FP32[batch,3]', 'y FP32[batch,3]', [node('Reshape', 'x shape', 'y')], [ints('shape', rows, 3)]);
}

/** Multiplies float32 `[batch, 3]` by a `factor` that has no axis at all. */
export function scalarInputModel(): Uint8Array {
  return model('x FP32[batch,3]; factor FP32[]', 'y FP32[batch,3]', [node('Mul', 'x factor', 'y')]);
}

/** Looks `index` (int64 `[batch]`) up in a table of three; the run fails for an index outside of -3..2. */
export function lookupModel(): Uint8Array {
  const table = floats('table', 10, 20, 30);
  return model('index INT64[batch]', 'value FP32[batch]', [node('Gather', 'table index', 'value')], [table]);
}

/** Splits float32 `[batch, length]` into as many equal parts as it can: fails unless `length` is a multiple of 4. */
export function multipleOfFourModel(): Uint8Array {
  const fours = ints('fours', 0, -1, 4);
  return model('x FP32[batch,length]', 'y FP32[batch,quarter,4]', [node('Reshape', 'x fours', 'y')], [fours]);
}

/** Gives a sequence of tensors instead of a tensor. */
export function sequenceModel(): Uint8Array {
  const type = { sequenceType: { elemType: tensorType({ datatype: 'FP32', shape: [] }) } };
  return model('x FP32[batch,3]', [{ name: 'pieces', type }], [node('SequenceConstruct', 'x', 'pieces')]);
}

/** Whole for the check of its file, and yet no model that ONNX Runtime can load. */
export function unloadableModel(): Uint8Array {
  return model('x FP32[batch,3]', 'y FP32[batch,3]', [node('NoSuchOperator', 'x', 'y')]);
}

/**
 * `mean` of float32 `values` over `length` where `mask` is not 0 (float32 `[batch, 1]`), and `doubled`, twice each
 * value (float32 `[batch, length]`). Padding changes neither.
 */
export function maskedMeanModel(): Uint8Array {
  return model(
    'values FP32[batch,length]; mask FP32[batch,length]',
    'mean FP32[batch,1]; doubled FP32[batch,length]',
    [
      node('Mul', 'values mask', 'masked'),
      node('ReduceSum', 'masked axis_1', 'sum', { keepdims: 1 }),
      node('ReduceSum', 'mask axis_1', 'count', { keepdims: 1 }),
      node('Div', 'sum count', 'mean'),
      node('Add', 'values values', 'doubled'),
    ],
    [AXIS_1],
  );
}

/** The mean of float32 `values` over `length`, padding included: float32 `[batch, 1]`. */
export function plainMeanModel(): Uint8Array {
  const mean = node('ReduceMean', 'values axis_1', 'mean', { keepdims: 1 });
  return model('values FP32[batch,length]', 'mean FP32[batch,1]', [mean], [AXIS_1]);
}

/** Asks for a pebibyte, more than a process can address: the run fails at the allocation. float32 `[batch, 1]` in. */
export function endlessModel(): Uint8Array {
  const size = ints('size', 1, 2 ** 24, 2 ** 24);
  return model('x FP32[batch,1]', 'y FP32[batch,height,width]', [node('Expand', 'x size', 'y')], [size]);
}

/** Reshapes float32 `[batch, 3]` to `size` (int64 `[batch]`); the run of a row fails unless its `size` is 3. */
export function reshapeModel(): Uint8Array {
  return model('x FP32[batch,3]; size INT64[batch]', 'y FP32[batch]', [node('Reshape', 'x size', 'y')]);
}

/** Goes round as often as the largest of `turns` says (int64 `[batch]`), about a million times a second; gives `turns`. */
export function turningModel(): Uint8Array {
  const body: Graph = {
    inputs: values('turn INT64[]; goes_on BOOL[]; before INT64[]'),
    outputs: values('still_goes_on BOOL[]; after INT64[]'),
    nodes: [node('Identity', 'goes_on', 'still_goes_on'), node('Add', 'before one', 'after')],
    constants: [int('one', 1)],
  };
  return model(
    'turns INT64[batch]',
    'turned INT64[batch]',
    [
      node('ReduceMax', 'turns', 'most', { keepdims: 0 }),
      node('Loop', 'most - zero', 'count', { body }),
      node('Mul', 'count zero', 'nothing'),
      node('Add', 'turns nothing', 'turned'),
    ],
    [int('zero', 0)],
  );
}

/** Gives back int32 `[batch, 3]`. With 8 rows or more it divides the least int32 by -1, at which x86 ends the process. */
export function trappingModel(): Uint8Array {
  const int32 = (name: string, value: number): Constant => {
    return { name, dataType: DataType.INT32, dims: [1], int32Data: [value] };
  };
  return model(
    'x INT32[batch,3]',
    'y INT32[batch,3]',
    [
      node('Shape', 'x', 'shape', { start: 0, end: 1 }),
      node('Cast', 'shape', 'rows', { to: DataType.INT32 }),
      // 1 up to 7 rows, -1 from 8 on: 15 less twice the rows, cut to that.
      node('Sub', 'fifteen rows', 'less'),
      node('Sub', 'less rows', 'least_twice'),
      node('Max', 'least_twice minus_one', 'from_below'),
      node('Min', 'from_below one', 'divisor'),
      node('Div', 'least divisor', 'quotient'),
      node('Mul', 'quotient zero', 'nothing'),
      node('Add', 'x nothing', 'y'),
    ],
    [int32('fifteen', 15), int32('minus_one', -1), int32('one', 1), int32('zero', 0), int32('least', -(2 ** 31))],
  );
}

/** Gives back float32 `[batch, 3]`; the run fails with 8 rows or more. */
export function failingModel(): Uint8Array {
  return model(
    'x FP32[batch,3]',
    'y FP32[batch,3]',
    [
      node('Shape', 'x', 'rows', { start: 0, end: 1 }),
      node('Gather', 'table rows', 'nothing'),
      node('Add', 'x nothing', 'y'),
    ],
    [floats('table', 0, 0, 0, 0, 0, 0, 0, 0)],
  );
}

/** Looks `ids` (int64 `[batch, 2]`) up in a table that has those from 4,901 to 5,099 alone. */
export function farIdsModel(): Uint8Array {
  return model(
    'ids INT64[batch,2]',
    'value FP32[batch,2]',
    [
      node('Sub', 'ids offset', 'places'),
      node('Abs', 'places', 'distances'),
      node('Gather', 'table distances', 'value'),
    ],
    [ints('offset', 5_000), floats('table', ...Array(100).keys())],
  );
}

/** Gives back float32 `[batch, 3]`, after a product of two matrices with 64 × batch² rows: twice the rows take 64 times as long. */
export function slowerTogetherModel(): Uint8Array {
  return model(
    'x FP32[batch,3]',
    'y FP32[batch,3]',
    [
      node('Shape', 'x', 'rows', { start: 0, end: 1 }),
      node('Mul', 'rows rows', 'rowsSquared'),
      node('Mul', 'rowsSquared each', 'side'),
      node('Concat', 'side side', 'square', { axis: 0 }),
      node('ConstantOfShape', 'square', 'zeros'),
      node('MatMul', 'zeros zeros', 'product'),
      node('ReduceMax', 'product', 'nothing', { keepdims: 0 }),
      node('Add', 'x nothing', 'y'),
    ],
    [ints('each', 64)],
  );
}

/** It ends the process that opens it: ONNX Runtime computes constants then, and one divides the least int32 by -1. */
export function trappingWhenOpened(): Uint8Array {
  return model(
    'index INT64[batch]',
    'value INT64[batch]',
    [
      node('Div', 'least minus_one', 'quotient'),
      node('Cast', 'quotient', 'wide', { to: DataType.INT64 }),
      node('Add', 'index wide', 'value'),
    ],
    [scalar('least', -(2 ** 31)), scalar('minus_one', -1)],
  );
}

/** Index at which `costlyModel` divides the least int32 by -1, at which x86 ends the process. */
export const TRAP = 1;

/**
 * Takes a hundred microseconds for each row of float32 `x` `[batch, 3]` and int64 `index` `[batch]`: `reciprocal` is `1 / x`,
 * and `value` is looked up in a table of three. The run fails for an index outside of -3..2.
 */
export function costlyModel(): Uint8Array {
  const { nodes, constants } = graphOf(
    'wide = MatMul x w(3,1024); deep = MatMul wide w(1024,1024); deeper = MatMul deep w(1024,1024); ' +
      'deepest = MatMul deeper w(1024,1024); back = MatMul deepest w(1024,3); nothing = Mul back 0.0; ' +
      `inverse = Div 1.0 x; reciprocal = Add inverse nothing; traps = Equal index ${TRAP}; trap = Cast traps to=6; ` +
      'two = Add trap trap; divisor = Sub one two; quotient = Div least divisor; some = Cast quotient to=1; ' +
      'none = Mul some 0.0; found = Gather [10.0,20.0,30.0] index; value = Add found none',
  );
  const integers = [scalar('one', 1), scalar('least', -(2 ** 31))];
  return model('x FP32[batch,3]; index INT64[batch]', 'reciprocal FP32[batch,3]; value FP32[batch]', nodes, [
    ...constants,
    ...integers,
  ]);
}

/** What `culpritModel` does for some indexes, in native code. */
export const CULPRIT = { traps: 7_001, hangs: 7_002, fills: 7_003 } as const;

/**
 * Gives ten times `index` (int64 `[batch]`), but for three indexes: `traps` divides the least int32 by -1, at which x86 ends
 * the process; `hangs` goes round for hours; `fills` asks for a tebibyte.
 */
export function culpritModel(): Uint8Array {
  const body: Graph = {
    inputs: values('turn INT64[]; goes_on BOOL[]; before INT64[]'),
    outputs: values('still_goes_on BOOL[]; after INT64[]'),
    nodes: [node('Identity', 'goes_on', 'still_goes_on'), node('Add', 'before zero', 'after')],
    constants: [int('zero', 0)],
  };
  const sees = (what: keyof typeof CULPRIT) => [
    node('Equal', `index ${what}`, `is_${what}`),
    node('Cast', `is_${what}`, `each_${what}`, { to: DataType.INT64 }),
    node('ReduceMax', `each_${what}`, `any_${what}`, { keepdims: 0 }),
  ];
  return model(
    'index INT64[batch]',
    'value INT64[batch]',
    [
      ...sees('traps'),
      node('Cast', 'any_traps', 'trap', { to: DataType.INT32 }),
      node('Add', 'trap trap', 'two'),
      node('Sub', 'one two', 'divisor'),
      node('Div', 'least divisor', 'quotient'),
      node('Cast', 'quotient', 'wide', { to: DataType.INT64 }),
      ...sees('hangs'),
      node('Mul', 'any_hangs hours', 'turns'),
      node('Loop', 'turns - zero', 'turned', { body }),
      ...sees('fills'),
      node('Mul', 'any_fills tebibyte', 'bytes'),
      node('Add', 'bytes side', 'shape'),
      node('ConstantOfShape', 'shape', 'filled'),
      node('ReduceMax', 'filled', 'filler', { keepdims: 0 }),
      node('Cast', 'filler', 'filled_wide', { to: DataType.INT64 }),
      node('Add', 'wide turned', 'some'),
      node('Add', 'some filled_wide', 'all'),
      node('Mul', 'all zero', 'nothing'),
      node('Mul', 'index ten', 'tens'),
      node('Add', 'tens nothing', 'value'),
    ],
    [
      ...Object.entries(CULPRIT).map(([name, index]) => int(name, index)),
      scalar('one', 1),
      scalar('least', -(2 ** 31)),
      int('hours', 4e12),
      int('zero', 0),
      int('ten', 10),
      int('tebibyte', 2 ** 38),
      ints('side', 1),
    ],
  );
}

function scalar(name: string, value: number): Constant {
  return { name, dataType: DataType.INT32, dims: [1], int32Data: [value] };
}

const WIDTH = 1024;

/**
 * `x` FP32 `[batch, 3]` → `y` FP32 `[batch, 1031]`: products of matrices that take 17 MB together, and of a small one.
 *
 * @param maxRows more fail. @default they do not
 */
export function largeModel(seed = 1, maxRows?: number): Uint8Array {
  const graph = buildGraph(seed);
  let value = graph.node('MatMul', ['x', graph.weights([3, WIDTH], 3)]);
  for (const width of [WIDTH, WIDTH, WIDTH, WIDTH + 7]) {
    value = graph.node('MatMul', [value, graph.weights([WIDTH, width], WIDTH)]);
  }
  if (maxRows !== undefined) {
    const rows = graph.node('Shape', ['x'], { start: 0, end: 1 });
    const last = graph.node('Sub', [rows, graph.integers([1])]);
    const added = graph.node('Gather', [graph.floats([maxRows], new Array<number>(maxRows).fill(1)), last]);
    value = graph.node('Add', [value, added]);
  }
  graph.node('Tanh', [value], {}, 'y');
  return graph.encode(
    [{ name: 'x', datatype: 'FP32', shape: ['batch', 3] }],
    [{ name: 'y', datatype: 'FP32', shape: ['batch', WIDTH + 7] }],
  );
}

/** The words of `x`, BYTES `[batch]`, in small letters. @param locale whose letters these are. @default ONNX Runtime's own */
export function lowerCaseModel(locale?: string): Uint8Array {
  const attributes = { case_change_action: 'LOWER', ...(locale !== undefined && { locale }) };
  return model('x BYTES[batch]', 'y BYTES[batch]', [node('StringNormalizer', 'x', 'y', attributes)]);
}
