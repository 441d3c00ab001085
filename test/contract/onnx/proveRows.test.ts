import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import * as ort from 'onnxruntime-node';
import type { Graph } from '../../../bench/workload/encodeModel.ts';
import type { Datatype } from '../../../lambda/core/tensor.ts';
import { withGraph } from '../../../lambda/onnx/graph.ts';
import { proveRows, type RowProof } from '../../../lambda/onnx/proveRows.ts';
import { FAMILIES } from '../../../lambda/onnx/rules/families.ts';
import { changed, graphOf, ints, model, node, values } from '../../helpers/graph.ts';
import { modelsDirectory } from '../../helpers/openModels.ts';
import { OPERATORS } from '../../helpers/operators.ts';

interface Case {
  /** What is said of the node, in part; undefined if rows are independent. */
  readonly why: string | undefined;
  readonly operators: readonly string[];
  readonly bytes: Uint8Array;
  readonly inputs: string;
  readonly outputs: string;
}

/** In full: `F[N,4]` is `FP32[batch,4]`, and `I` is for INT64. */
function inFull(text: string): string {
  return text.replace(/\bF\[/g, 'FP32[').replace(/\bI\[/g, 'INT64[').replaceAll('[N', '[batch');
}

/** A graph of `x` and `y`, in short, whose shape is that of `x` unless it is said. Further inputs follow behind `x`. */
function mixed(why: string | undefined, text: string, x = 'F[N,4]', y = x.split(';')[0]): Case {
  const [inputs, outputs] = [inFull(`x ${x}`), inFull(`y ${y}`)];
  const { nodes, constants } = graphOf(text);
  const bytes = withOpset(model(inputs, outputs, nodes, constants), 'com.microsoft', 1);
  return { why, operators: nodes.map(({ op }) => op), bytes, inputs, outputs };
}

function withOpset(bytes: Uint8Array, domain: string, version: number): Uint8Array {
  return changed(bytes, ({ opsetImport }) => {
    for (const one of opsetImport) if (one.domain === domain) one.version = version;
  });
}

function apart(text: string, x?: string, y?: string): Case {
  return mixed(undefined, text, x, y);
}

async function proofOf({ bytes, inputs, outputs }: Case, ragged?: string): Promise<RowProof> {
  const path = join(await modelsDirectory({ 'm.onnx': bytes }), 'm.onnx');
  const specs = (text: string) => values(text).map((one) => ({ ...one, shape: one.shape.map((axis) => axis ?? '?') }));
  const contract = { inputs: specs(inputs), outputs: specs(outputs), ...(ragged && { ragged: { name: ragged } }) };
  return withGraph(path, (graph) => proveRows(graph, contract as unknown as Parameters<typeof proveRows>[1]));
}

const ROWS = 5;
const LENGTH = 3;

/** `rows` of the rows that a model is given, from `first` on. */
function feedsOf({ inputs }: Case, first: number, rows: number): Record<string, ort.Tensor> {
  return Object.fromEntries(
    values(inputs).map(({ name, datatype, shape }, seed) => {
      const dims = shape.map((axis) => (axis === 'batch' ? rows : typeof axis === 'number' ? axis : LENGTH));
      const width = dims.reduce((a, b) => a * b, 1) / rows;
      const places = Array.from({ length: width * rows }, (_, place) => first * width + place);
      return [name, tensorOf(datatype as Datatype, places, dims, seed)];
    }),
  );
}

function tensorOf(datatype: Datatype, places: readonly number[], dims: readonly number[], seed: number): ort.Tensor {
  const whole = (place: number): number => (7 * place + seed + (place >> 2)) % 3;
  if (datatype === 'INT64')
    return new ort.Tensor(
      'int64',
      BigInt64Array.from(places, (at) => BigInt(whole(at))),
      dims,
    );
  if (datatype === 'INT32') return new ort.Tensor('int32', Int32Array.from(places, whole), dims);
  const words = places.map((at) => ['red', 'a_red', 'blue'][whole(at)] as string);
  if (datatype === 'BYTES') return new ort.Tensor('string', words, dims);
  return new ort.Tensor(
    'float32',
    Float32Array.from(places, (at) => Math.sin(3 * at + seed)),
    dims,
  );
}

/** What ONNX Runtime answers to each of the rows: alone, and all of them together. */
async function answersTo(one: Case) {
  const session = await ort.InferenceSession.create(one.bytes, { logSeverityLevel: 4, intraOpNumThreads: 1 });
  const run = async (first: number, rows: number) => {
    const { y } = (await session.run(feedsOf(one, first, rows))) as { y: ort.Tensor };
    const data = Array.from(y.data as ArrayLike<number | bigint | string>, (value) =>
      typeof value === 'number' ? Math.round(1e4 * value) / 1e4 : String(value),
    );
    const width = data.length / rows;
    return Array.from({ length: rows }, (_, row) => data.slice(row * width, (row + 1) * width));
  };
  const alone: unknown[] = [];
  for (let row = 0; row < ROWS; row++) alone.push(...(await run(row, 1)));
  const together = await run(0, ROWS);
  await session.release();
  return { alone, together };
}

const CUBE = 'F[N,2,4]';
const IDS = 'I[N]';
const COUNT = 'rows = Shape x start=0 end=1';
const NUMBERS = `${COUNT}; count = Squeeze rows; numbers = Range 0 count 1`;
const OWN_PLACES = `${NUMBERS}; places = Unsqueeze numbers [1]`;
/** `at` `[N, length]`: the places of the elements of `x` `[N, length]` in all of them, one row after the other. */
const FLAT_INDEXES = `${OWN_PLACES}; width = Shape x start=1; most = Squeeze width; columns = Range 0 most 1; start = Mul places width; at = Add start columns`;
const NORMAL = '[1.0,2.0,1.5,0.5] [0.0,1.0,0.5,-1.0] [0.0,0.5,0.1,0.2] [1.0,1.5,2.0,1.0]';
const TOKENS = 'Tokenizer x mark=0 separators=[_] mincharnum=1 pad_value';
const COUNTS =
  'mode=TF min_gram_length=1 max_gram_length=1 max_skip_count=0 ngram_counts=[0] ngram_indexes=[0,1] pool_strings=[red,blue]';
const TREE =
  'TreeEnsembleRegressor x nodes_treeids=[0,0,0] nodes_nodeids=[0,1,2] nodes_featureids=[0,0,0] ' +
  'nodes_modes=[BRANCH_LEQ,LEAF,LEAF] nodes_values=[-0.6,0.0,0.0] nodes_truenodeids=[1,0,0] nodes_falsenodeids=[2,0,0] ' +
  'n_targets=1 target_treeids=[0,0] target_nodeids=[1,2] target_ids=[0,0] target_weights=[1.0,2.0]';
const CLASSES = 'classlabels_ints=[0,1] intercepts=[0.0,1.0]';
const BITS = 'K=16 N=2 bits=4 block_size=16';
const AXIS_0 = 'it takes axis 0 for the rows, and they are on axis 1';
const QUANTISED = 'q = QuantizeLinear x 0.1 u8(128)';

/** Turns rows to axis 1, and the answer back. */
function onAxis1(call: string): string {
  return `turned = Transpose x perm=[1,0,2]; made = ${call}; y = Transpose made perm=[1,0,2]`;
}

/** A node with graphs of its own. */
function nested(
  why: string | undefined,
  before: string,
  inputs: string,
  attributes: Record<string, number | Graph>,
  shape = 'F[N,4]',
): Case {
  const { nodes, constants } = before === '' ? { nodes: [], constants: [] } : graphOf(before);
  const op = 'body' in attributes ? 'Scan' : 'If';
  const last = node(op, inputs, inputs.includes(' ') ? 'sum y' : 'y', attributes);
  const [x, y] = [inFull(`x ${shape}`), inFull(`y ${shape}`)];
  return { why, operators: [op], bytes: model(x, y, [...nodes, last], constants), inputs: x, outputs: y };
}

function body(inputs: string, outputs: string, text: string): Graph {
  return { inputs: inputs === '' ? [] : values(inFull(inputs)), outputs: values(inFull(outputs)), ...graphOf(text) };
}

const BRANCHES = {
  then_branch: body('', 'a F[N,4]', 'a = Relu x'),
  else_branch: body('', 'b F[N,4]', 'b = Neg x'),
};

/** For families rows that stay apart, and rows that do not, beyond what `OPERATORS` tries. */
const CASES: Readonly<Record<string, readonly Case[]>> = {
  'Element by element': [
    apart('sum = Add x w(1,4); z = Where bool[1,0,0,1] sum x; y = Erf z'),
    mixed("Add 'y': a constant of 3 rows meets the rows", 'y = Add x w(3,1)'),
    mixed("Div 'y': the number of rows enters the data", `${COUNT}; count = Cast rows to=1; y = Div x count`),
  ],
  Casts: [apart('half = Cast x to=10; y = CastLike half x')],
  'Quantisation with constant scales': [
    apart('q = QuantizeLinear x [0.1,0.2] u8[9,99] axis=1; y = DequantizeLinear q [0.1,0.2] u8[9,99] axis=1', CUBE),
    mixed("'y': a constant of 2 rows", 'y = QuantizeLinear x [0.1,0.2] u8[9,99] axis=0', CUBE, 'UINT8[N,2,4]'),
  ],
  'Normalisation of text': [
    apart('y = StringNormalizer x case_change_action=UPPER locale=C.UTF-8', 'BYTES[N]'),
    mixed('its rows decide the shape', 'y = StringNormalizer x stopwords=[red] locale=C.UTF-8', 'BYTES[N]'),
  ],
  'Quantised joins': [
    apart(
      `${QUANTISED}; j = QLinearConcat 0.1 u8(128) q 0.1 u8(128) q 0.2 u8(0) axis=1; y = Cast j to=1`,
      'F[N,4]',
      'F[N,8]',
    ),
  ],
  'Normalisation of batches': [
    apart(`y = BatchNormalization x ${NORMAL}`),
    mixed("'y': it has training_mode=1", `y,m,v = BatchNormalization x ${NORMAL} training_mode=1`),
  ],
  Reductions: [
    apart('mean = ReduceMean x [-1]; z = Sub x mean; y = ArgMax z axis=-1 keepdims=0', 'F[N,4]', IDS),
    mixed("ReduceMax 'most': it reduces all axes", 'most = ReduceMax x keepdims=0; y = Sub x most'),
  ],
  Largest: [
    mixed(
      "'z': the number of rows decides how many",
      `${COUNT}; k = Min rows [4]; z,i = TopK x k; y = ReduceSum z [1]`,
    ),
  ],
  'Products of matrices': [
    apart('z = MatMul x w(4,4); y = Gemm z w(4,4) w(4) transB=1'),
    mixed("MatMul 'w': it sums over the rows", 't = Transpose x; w = MatMul t x; y = MatMul x w'),
  ],
  'Quantised products': [
    apart(`${QUANTISED}; y = QGemm q 0.1 u8(128) bytes(4,2) 0.1 u8(128)`, 'F[N,4]', 'F[N,2]'),
    mixed("QGemm 'y': it sums over the rows", `${QUANTISED}; y = QGemm q 0.1 u8(128) q 0.1 u8(128) transA=1`),
  ],
  'Packed weights': [
    apart(`y = MatMulNBits x bytes(2,1,8) w(2) ${BITS}`, 'F[N,16]', 'F[N,2]'),
    mixed('it sums over', `t = Transpose x; y = MatMulNBits t bytes(2,1,8) w(2) ${BITS}`, 'F[N,16]'),
  ],
  Einsum: [
    apart('y = Einsum x w(4,4) equation=bi,ij->bj'),
    mixed("'w': its equation bi,bj->ij sums over the rows", 'w = Einsum x x equation=bi,bj->ij; y = MatMul x w'),
  ],
  Pools: [mixed('it depends on how many rows there are', 'z,y = MaxPool x kernel_shape=[2]', CUBE, 'I[N,2,3]')],
  'Pools of everything': [
    apart(
      `${QUANTISED}; p = QLinearGlobalAveragePool q 0.1 u8(128) 0.1 u8(128) channels_last=0; z = Reshape p [-1,4]; y = Cast z to=1`,
      'F[N,4,3,2]',
      'F[N,4]',
    ),
  ],
  'New shapes': [
    apart(
      't = Transpose x perm=[1,0,2]; f = Reshape t [-1,4]; g = Gemm f w(4,4); r = Shape t; z = Reshape g r; y = Transpose z perm=[1,0,2]',
      'F[N,3,4]',
    ),
    apart('more = Reshape x [-1,2]; y = Reshape more [-1,2,4]', CUBE),
    mixed("'z': its new shape does not keep rows apart", 'z = Reshape x [4,-1]; s = Softmax z; y = Reshape s [-1,4]'),
  ],
  Expansion: [
    apart('y = Expand x [1,3,1]', 'F[N,1,4]', 'F[N,3,4]'),
    mixed('repeats rows by the number', `${COUNT}; s = Concat [1] rows [1] axis=0; y = Expand x s`, 'F[N,1,4]'),
  ],
  'Constants of a shape': [
    apart(
      'c = Concat x x axis=0; s = Shape c; zeros = ConstantOfShape s; m = Max c zeros; y,z = Split m axis=0 num_outputs=2',
    ),
    apart('shape = Shape x; zeros = ConstantOfShape shape; y = Max x zeros'),
  ],
  Shapes: [apart('shape = Shape x; flat = Flatten x; y = Reshape flat shape', CUBE)],
  Sizes: [mixed("Div 'y': the number of rows", 'size = Size x; count = Cast size to=1; y = Div x count')],
  Ranges: [
    apart('numbers = Range 0 4 1; y = Gather x numbers axis=1'),
    apart(
      `${NUMBERS}; width = Shape x start=1; all = Mul width rows; own = Div all rows; end = Squeeze own; columns = Range 0 end 1; y = Gather x columns axis=1`,
      'F[N,length]',
    ),
    mixed("'y': a row's place in the batch enters", `${OWN_PLACES}; column = Cast places to=1; y = Add x column`),
  ],
  Slices: [
    mixed("Slice 'first': it takes rows by their places", 'first = Slice x [0] [1]; y = Sub x first'),
    mixed("'z': the number of rows decides what it takes", `${COUNT}; z = Slice x [0] rows [1]; y = ReduceSum z [1]`),
  ],
  Splits: [mixed("'a': it splits the rows", 'a,b = Split x axis=0 num_outputs=2; y = Concat b a axis=0')],
  Joins: [
    mixed("'y': it has another number of rows than the inputs", 'y = Concat x x axis=0'),
    mixed("'y': a constant number of rows meets the rows", 'y = Concat x w(1,4) axis=1', 'F[N,4]', 'F[N,8]'),
  ],
  'Look-ups': [
    mixed('each row looks up in all', 'i = ArgMax x axis=1 keepdims=0; y = Gather x i axis=1', 'F[N,4]', 'F[N,n]'),
    // As exporters look up the mask of each row.
    apart(`${FLAT_INDEXES}; flat = Reshape x [-1]; y = Gather flat at`, 'F[N,length]'),
    mixed(
      "'y': it takes rows by",
      `${FLAT_INDEXES}; i = Add at [1]; f = Reshape x [-1]; y = Gather f i`,
      'F[N,length]',
    ),
    mixed(
      "'y': it takes rows by their places",
      `${FLAT_INDEXES}; wide = Shape z start=1; s = Mul places wide; i = Add s columns; f = Reshape z [-1]; y = Gather f i`,
      'F[N,length]; z F[N,width]',
    ),
  ],
  'Look-ups by tuple': [
    apart(`${OWN_PLACES}; z = ArgMax x axis=1; t = Concat places z axis=1; y = GatherND x t`, undefined, 'F[N]'),
  ],
  'Writes by tuple': [
    apart('m = Reshape [0] [1,1]; t = ScatterND w(3,4) m w(1,4); y = MatMul x t', 'F[N,3]', 'F[N,4]'),
  ],
  'One of many': [
    mixed("OneHot 'y': rows decide how wide it is", `${COUNT}; y = OneHot x rows [0.0,1.0]`, IDS, 'F[N,width]'),
  ],
  'Recurrent layers': [
    apart(
      't = Transpose x perm=[1,0,2]; z,last = GRU t w(1,9,4) w(1,9,3) hidden_size=3; y = Squeeze last [0]',
      'F[N,length,4]',
      'F[N,3]',
    ),
    // No input that is left out is an output that is.
    apart(
      't = Transpose x perm=[1,0,2]; ,last = GRU t w(1,9,4) w(1,9,3) hidden_size=3; z = Squeeze last [0]; y = Clip z - 0.1',
      'F[N,length,4]',
      'F[N,3]',
    ),
    mixed(
      "LSTM 'z': it takes axis 0 for time, and the rows are there",
      'z,last = LSTM x w(1,12,4) w(1,12,3) hidden_size=3; y = Squeeze z [1]',
      'F[N,length,4]',
      'F[N,length,3]',
    ),
  ],
  Scans: [
    {
      ...amidst(
        'table = Identity w(3,4)',
        ['Scan', 'table'],
        { num_scan_inputs: 1, body: body('one FP32[4]', 'made F[N,4]', 'made = Mul x one') },
        't = Transpose z perm=[1,0,2]; y = ReduceSum t [1] keepdims=0',
      ),
      operators: ['Scan'],
    },
  ],
  Branches: [
    nested(undefined, 'width = Shape x start=1; is = Equal width [4]; c = Squeeze is', 'c', BRANCHES),
    nested("'y': the number of rows decides which", `${COUNT}; is = Equal rows [1]; c = Squeeze is`, 'c', BRANCHES),
  ],
  'Fused attention': [mixed(AXIS_0, onAxis1('MultiHeadAttention turned turned turned num_heads=2'), CUBE)],
  'Fused embedding': [
    apart('y,mask = EmbedLayerNormalization x - w(5,4) w(6,4) - [1.0,2.0,1.0,3.0] w(4)', 'INT32[N,3]', 'F[N,3,4]'),
  ],
  'Trees, linear models and support vectors': [
    apart(
      `label,y = LinearClassifier x coefficients=[1.0,2.0,-3.0,4.0,0.5,1.0,2.0,-1.0] ${CLASSES}`,
      'F[N,4]',
      'F[N,2]',
    ),
    mixed(AXIS_0, `t = Transpose x; label,y = LinearClassifier t coefficients=[1.0,2.0] ${CLASSES}`),
  ],
  'Their regressors': [apart(`y = ${TREE}`, 'F[N,4]', 'F[N,1]')],
  'Maps of classes': [mixed(AXIS_0, 't = Transpose x; y = ZipMap t classlabels_int64s=[0,1]')],
  Categories: [apart('y = OneHotEncoder x cats_strings=[red,blue] zeros=1', 'BYTES[N,1]', 'F[N,1,2]')],
  Words: [apart(`z = ${TOKENS}=#; y = TfIdfVectorizer z ${COUNTS}`, 'BYTES[N]', 'F[N,2]')],
  'Counts of words': [
    apart(`y = TfIdfVectorizer x ${COUNTS}`, 'BYTES[N,3]', 'F[N,2]'),
    mixed("'y': it counts the padding", `z = ${TOKENS}=red; y = TfIdfVectorizer z ${COUNTS}`, 'BYTES[N]', 'F[N,2]'),
  ],
  'Dynamic quantisation': [
    mixed("'q': it scales by the whole batch", 'q,s,zero = DynamicQuantizeLinear x; y = DequantizeLinear q s zero'),
  ],
  'Shapes that values decide': [
    mixed(
      "Unique 'z': its rows decide the shape",
      'z,i,places = Unique x; y = Reshape places [-1,4]',
      undefined,
      'I[N,4]',
    ),
  ],
  'Random numbers': [mixed("'noise': its answers are random", 'noise = RandomNormalLike x; y = Add x noise')],
  Dropout: [
    mixed(
      "Dropout 'y': it drops values at random",
      's = ReduceSum w(3) keepdims=0; t = Less s 0.0; y = Dropout x 0.5 t',
    ),
  ],
};

const ALL = Object.entries(CASES).flatMap(([family, cases]) => cases.map((one) => [family, one] as const));

describe('the table of operators', () => {
  it('has cases for each family', () => {
    const tried = new Set(ALL.flatMap(([, { operators }]) => operators));
    for (const name of JSON.stringify(OPERATORS).match(/\w+/g) ?? []) tried.add(name);
    expect(FAMILIES.filter(({ operators }) => !operators.some((one) => tried.has(one)))).toEqual([]);
  });

  it.each(ALL.filter(([, { why }]) => why === undefined))(
    'keeps rows apart as ONNX Runtime does: %s',
    async (_, one) => {
      expect(await proofOf(one)).toMatchObject({ verdict: 'independent', why: '' });
      const { alone, together } = await answersTo(one);
      expect(together).toEqual(alone);
      expect(new Set(alone.map((row) => JSON.stringify(row))).size).toBeGreaterThan(1);
    },
  );

  it.each(ALL.flatMap(([family, one]) => (one.why === undefined ? [] : [[family, one.why, one] as const])))(
    'names the node where rows meet: %s, %s',
    async (_, why, one) => {
      expect(await proofOf(one)).toMatchObject({ verdict: 'mixes', why: expect.stringContaining(why) });
    },
  );
});

const THIRD = `${COUNT}; place = Mod rows [3]; next = Add place [1]`;
const LONG_BRANCHES = {
  then_branch: body('', 'a F[N,length]', 'a = Relu x'),
  else_branch: body('', 'b F[N,length]', 'b = Neg x'),
};
const EITHER = { ...LONG_BRANCHES, else_branch: body('', 'b F[N,length]', 'b = Softmax x axis=0') };
const CLIPPED = `${COUNT}; few = Clip rows 1 3`;
const SCALED = `${COUNT}; count = Cast rows to=1`;
const INNER = 'halves = Reshape x [-1,2]; most = ArgMax x axis=1; at = Mod most 2';
const INNER_TUPLES = `${OWN_PLACES}; ${INNER}; tuples = Concat places at axis=1`;
const SUMS = 'sums = ReduceSum x [1]';

/** Of each, ONNX Runtime answers a row otherwise among others than alone. */
const DISGUISED: readonly (readonly [what: string, one: Case])[] = [
  [
    'a quantised softmax over the rows',
    apart(
      `${QUANTISED}; s = QLinearSoftmax q 0.1 u8(128) 0.004 u8(0) axis=0 opset=13; y = DequantizeLinear s 0.004 u8(0)`,
    ),
  ],
  [
    'a quantised softmax over a vector of rows',
    apart(
      `${QUANTISED}; s = QLinearSoftmax q 0.1 u8(128) 0.004 u8(0) opset=13; y = DequantizeLinear s 0.004 u8(0)`,
      'F[N]',
    ),
  ],
  [
    'several constants repeated together, among rows in series',
    apart(
      `${COUNT}; t = Tile w(2) rows; c = Concat x x axis=0; m = Mul c t; a,b = Split m axis=0 num_outputs=2; y = Sub a b`,
      'F[N]',
    ),
  ],
  [
    'constants repeated in series, and joined',
    apart(
      `${COUNT}; a = Expand 1.0 rows; b = Expand 2.0 rows; c = Concat a b axis=0; flat = Reshape x [-1]; m = Mul flat c; y = Reshape m [-1,2]`,
      'F[N,2]',
    ),
  ],
  [
    'constants repeated in series, in a new shape',
    apart(
      `${COUNT}; s = Concat [4] rows axis=0; e = Expand w(4,1) s; f = Reshape e [-1]; flat = Reshape x [-1]; m = Mul flat f; y = Reshape m [-1,4]`,
    ),
  ],
  [
    'the first of constants in series',
    apart(
      `${COUNT}; s = Concat [4] rows axis=0; e = Expand w(4,1) s; f = Reshape e [-1]; first = Slice f [0] [4] [0]; m = Reshape first [1,4]; y = Add x m`,
    ),
  ],
  [
    'constants that a place computed from the number of rows is looked up in',
    apart(`${THIRD}; t = Tile w(3) rows; one = Gather t place; y = Add x one`),
  ],
  [
    'row numbers in series',
    apart(`${NUMBERS}; t = Tile numbers [2]; z = Gather x t; y = Reshape z [-1,2]`, 'F[N]', 'F[N,2]'),
  ],
  ['row numbers cut to 0 and 1', apart(`${NUMBERS}; b = Cast numbers to=9; i = Cast b to=7; y = Gather x i`, 'F[N]')],
  ['the largest few', apart(`${CLIPPED}; v,i = TopK x few axis=1; y = ReduceSum v [1]`, 'F[N,4]', 'F[N,1]')],
  ['the first few', apart(`${CLIPPED}; v = Slice x [0] few [1]; y = ReduceSum v [1]`, 'F[N,4]', 'F[N,1]')],
  ['a column chosen by the number of rows', apart(`${THIRD}; y = Slice x place next [1]`, 'F[N,4]', 'F[N,1]')],
  ['a constant chosen by the number of rows', apart(`${THIRD}; c = Slice w(4,4) place next [0]; y = Add x c`)],
  [
    'padding shifted by the number of rows',
    apart(
      `${THIRD}; other = Sub [3] place; none = Concat [0] place [0] other axis=0; y = Pad x none`,
      'F[N,4]',
      'F[N,7]',
    ),
  ],
  ['padding with the number of rows', apart(`${SCALED}; n = Squeeze count; y = Pad x [0,1,0,0] n`, 'F[N,4]', 'F[N,5]')],
  [
    'a split of some columns',
    apart(
      `${CLIPPED}; other = Sub [4] few; s = Concat few other axis=0; a,b = Split x s axis=1; y = ReduceSum a [1]`,
      'F[N,4]',
      'F[N,1]',
    ),
  ],
  [
    'a size computed from the number of rows',
    apart(
      `${COUNT}; size = Clip rows 2 6; z = Resize x - - size axes=[2] mode=linear; y = GlobalAveragePool z`,
      CUBE,
      'F[N,2,1]',
    ),
  ],
  [
    'a column written by the number of rows',
    apart(
      `${THIRD}; i = Unsqueeze place [1]; t = Transpose x; c = Slice t [0] [1] [0]; s = ScatterND t i c; y = Transpose s`,
    ),
  ],
  [
    'elements of other rows that are looked up',
    apart(`${INNER}; y = GatherElements halves at axis=1`, 'F[N,4]', 'F[N,1]'),
  ],
  [
    'elements of other rows that are written',
    apart(`${INNER}; ${SUMS}; z = ScatterElements halves at sums axis=1; y = Reshape z [-1,4]`),
  ],
  ['tuples that look up in other rows', apart(`${INNER_TUPLES}; y = GatherND halves tuples`, 'F[N,4]', 'F[N]')],
  [
    'tuples that write to other rows',
    apart(`${INNER_TUPLES}; ${SUMS}; new = Squeeze sums [1]; z = ScatterND halves tuples new; y = Reshape z [-1,4]`),
  ],
  [
    'weights scaled by the number of rows',
    apart(`${SCALED}; k = Mul w(1,2,1) count; c = Conv w(1,2,4) k; f = Reshape c [1,4]; y = Add x f`),
  ],
  [
    'weights of a recurrent layer scaled by the number of rows',
    apart(
      `${SCALED}; k = Mul w(1,9,4) count; z,last = GRU w(3,1,4) k w(1,9,3) hidden_size=3; m = ReduceMax z keepdims=0; y = Add x m`,
    ),
  ],
  [
    'a vector of rows filled up by their places',
    apart('r = Relu x; y = Imputer r imputed_value_floats=[1.0,2.0,3.0,4.0,5.0]', 'F[N]'),
  ],
  ['a vector of rows taken for features', apart('y = FeatureVectorizer x inputdimensions=[1]', 'F[N]', 'F[N,1]')],
  [
    'a certain number of rows',
    apart(
      `${COUNT}; is = Equal rows [5]; i = Cast is to=7; pair = Concat i [1] axis=0; one = Gather pair [0]; c = Cast one to=1; y = Add x c`,
    ),
  ],
  [
    'no more than a certain number of rows',
    apart(
      `${COUNT}; most = Min rows [2]; few = Slice x [0] most [0]; s = ReduceSum few [1]; n = Sub rows most; z = Concat [0,0] n [0] axis=0; y = Pad s z`,
      'F[N,4]',
      'F[N,1]',
    ),
  ],
  [
    'a branch for a certain length',
    nested(undefined, 'length = Shape x start=1; is = Less [5] length; c = Squeeze is', 'c', EITHER, 'F[N,length]'),
  ],
  [
    'a mask of two places for each row, one behind the other',
    apart(
      'flat = Reshape z [-1]; y = Attention x w(4,12) w(12) flat num_heads=2',
      'F[N,3,4]; z INT32[N,2]',
      'F[N,3,4]',
    ),
  ],
  [
    'Cast that cuts halves of row numbers',
    apart(`${NUMBERS}; f = Cast numbers to=1; h = Mul f 0.5; i = Cast h to=7; j = Mul i 2; y = Gather x j`),
  ],
  ['Round of a half, which decides an axis', apart('r = Round 0.5; axis = Cast r to=7; y = CumSum x axis')],
  ['Pow of whole numbers, which decides an axis', apart('axis = Pow 2 -1; y = CumSum x axis')],
  ['Mod with the sign of the dividend, which decides an axis', apart('axis = Mod -2 3 fmod=1; y = CumSum x axis')],
  [
    'Cast that cuts the number of rows',
    apart(
      `${SCALED}; d = Sub count 5.0; e = Mul d d; f = Add e 1.0; g = Reciprocal f; i = Cast g to=7; r = Cast i to=1; y = Add x r`,
    ),
  ],
  [
    'Concat of two places of a row',
    apart(`${OWN_PLACES}; t = Tile places [1,2]; c = Concat t axis=1; y = GatherND x c`, 'F[N,5]', 'F[N]'),
  ],
  [
    'Concat of the places before rows',
    apart(`${OWN_PLACES}; t = Add places [-1,0]; c = Concat t axis=1; y = GatherND x c`, 'F[N,5]', 'F[N]'),
  ],
  [
    'Where that spreads row numbers to a table',
    apart(
      `${OWN_PLACES}; less = Less places 0; at = Where less 0 numbers; z = Gather x at; y = ReduceMean z [1] keepdims=0`,
    ),
  ],
  [
    'Shape that starts before the first axis',
    apart('s = Shape x start=-3; n = Gather s 0; c = Cast n to=1; y = Mul x c', 'F[N,5]'),
  ],
  [
    'RotaryEmbedding that takes rows for positions',
    apart('one = Unsqueeze x [0]; z = RotaryEmbedding one [0] w(64,4) w(64,4); y = Squeeze z [0]', 'F[N,8]'),
  ],
  [
    'RotaryEmbedding with a table of rows',
    apart('y = RotaryEmbedding x [0] cos cos', 'F[N,1,8]; cos F[N,4]', 'F[N,1,8]'),
  ],
  [
    'EmbedLayerNormalization with a table of rows',
    apart(
      'none = Mul z 0; ids = Cast none to=6; y,mask = EmbedLayerNormalization ids - x w(6,4) - [1.0,2.0,1.0,3.0] w(4)',
      'F[N,4]; z I[N,3]',
      'F[N,3,4]',
    ),
  ],
  [
    'MultiHeadAttention whose heads are masked by rows',
    apart(
      'heads = Unsqueeze mask [0]; y = MultiHeadAttention x x x - - heads num_heads=5',
      'F[N,3,10]; mask F[N,3,3]',
      'F[N,3,10]',
    ),
  ],
  [
    'MatMulInteger with a zero point for each row',
    apart(
      `${QUANTISED}; zero = Cast z to=2; p = MatMulInteger q bytes(4,5) u8(128) zero; y = Cast p to=1`,
      'F[N,4]; z I[N]',
      'F[N,5]',
    ),
  ],
  [
    'QGemm that adds rows to columns',
    apart(
      `${QUANTISED}; c = Cast z to=6; y = QGemm q 0.1 u8(128) bytes(4,5) 0.1 u8(128) c`,
      'F[N,4]; z I[N]',
      'F[N,5]',
    ),
  ],
];

/** A node with graphs of its own in the midst of a graph. */
function amidst(
  before: string,
  [op, input]: readonly [op: string, input: string],
  within: Record<string, number | Graph>,
  after: string,
  shape = 'F[N,4]',
): Case {
  const [first, last] = [graphOf(before), graphOf(after)];
  const [inputs, outputs] = [inFull(`x ${shape}`), inFull(`y ${shape}`)];
  const constants = new Map([...first.constants, ...last.constants].map((one) => [one.name, one]));
  const nodes = [...first.nodes, node(op, input, 'z', within), ...last.nodes];
  return {
    why: undefined,
    operators: [],
    inputs,
    outputs,
    bytes: model(inputs, outputs, nodes, [...constants.values()]),
  };
}

const TAKES_ELSE = 'most = ReduceMax w(3) keepdims=0; c = Less most 0.0';

/** A constant of the name of one outside says to what shape: [1,-1] here, [-1,4] there. */
function reshapingBranch(output: string): Graph {
  const inner = body(
    '',
    `${output} F[N,4]`,
    `r${output} = Reshape x to; s${output} = Softmax r${output} axis=1; ${output} = Reshape s${output} [-1,4]`,
  );
  return { ...inner, constants: [...(inner.constants ?? []), ints('to', 1, -1)] };
}

/** A function of the model that gives its input back, under the name of an operator, which ONNX Runtime runs instead. */
function withFunction(one: Case, name: string): Case {
  const bytes = changed(one.bytes, (proto) => {
    const opsetImport = [{ domain: '', version: 21 }];
    const node = [{ opType: 'Relu', input: ['in'], output: ['out'] }];
    proto.functions = [{ name, domain: '', input: ['in'], output: ['out'], attribute: ['axis'], node, opsetImport }];
  });
  return { ...one, bytes };
}

const SHADOWED: readonly (readonly [what: string, one: Case])[] = [
  [
    'a scan over rows in series',
    amidst(
      'twice = Concat x x axis=0',
      ['Scan', 'twice'],
      { num_scan_inputs: 1, body: body('row FP32[4]', 'made FP32[4]', 'made = Neg row') },
      'pairs = Reshape z [-1,8]; p,q = Split pairs axis=1 num_outputs=2; y = Sub p q',
    ),
  ],
  [
    'branches that repeat rows in another order',
    amidst(
      TAKES_ELSE,
      ['If', 'c'],
      {
        then_branch: body('', 'a F[N,2]', 'a = Concat x x axis=0'),
        else_branch: body('', 'b F[N,2]', 'u = Unsqueeze x [1]; v = Concat u u axis=1; b = Reshape v [-1,2]'),
      },
      'p,q = Split z axis=0 num_outputs=2; y = Sub p q',
      'F[N,2]',
    ),
  ],
  [
    'a constant in a branch of the name of one outside',
    amidst(
      `to = Identity [-1,4]; ${TAKES_ELSE}`,
      ['If', 'c'],
      { then_branch: reshapingBranch('a'), else_branch: reshapingBranch('b') },
      'y = Reshape z to',
    ),
  ],
  ['a function of the name of an operator', withFunction(apart('y = Softmax x axis=0'), 'Softmax')],
  [
    'images in series, sampled at grids that are not',
    apart(
      'twice = Concat x x axis=0; grids = Reshape grid [-1,3,3,2]; z = GridSample twice grids; ' +
        'a,b = Split z axis=0 num_outputs=2; y = Sub a b',
      'F[N,1,4,4]; grid F[N,2,3,3,2]',
      'F[N,1,3,3]',
    ),
  ],
  ['a mask of the rows that is taken for one of the heads', maskedAttention('y = Attention x x x mask')],
  ['Attention whose heads are masked by rows', maskedAttention('m = Unsqueeze mask [0]; y = Attention x x x m')],
];

/** ONNX's own attention, whose mask has no axis for the heads: with as many rows as heads it is another one. */
function maskedAttention(text: string): Case {
  const one = apart(text, 'F[N,5,3,4]; mask F[N,3,3]');
  const bytes = changed(withOpset(one.bytes, '', 23), ({ graph }) => {
    for (const each of graph?.node ?? []) each.domain = '';
  });
  return { ...one, bytes };
}

describe('a graph in which rows meet in disguise', () => {
  it.each([...DISGUISED, ...SHADOWED])('is not called independent: %s', async (_, one) => {
    expect((await proofOf(one)).verdict).not.toBe('independent');
    const { alone, together } = await answersTo(one);
    expect(together).not.toEqual(alone);
  });
});

describe('a family of models that were batched and wrong', () => {
  it.each<[string, Case]>([
    [
      'a click model in training mode, whose second output is small',
      mixed(
        "BatchNormalization 'normal': it has training_mode=1",
        `normal,m,v = BatchNormalization x ${NORMAL} training_mode=1; p = Sigmoid normal; q = Sub 1.0 p; y = Concat p q axis=1`,
        'F[N,4]',
        'F[N,8]',
      ),
    ],
    [
      '64-bit ids that differ by the row',
      mixed("Add 'y': a row's place in the batch enters the data", `${NUMBERS}; y = Add x numbers`, IDS),
    ],
    [
      'a list of candidates, of which those after the 1000th get 0',
      mixed("Where 'y': a row's place", `${NUMBERS}; first = Less numbers 1000; y = Where first x 0.0`, 'F[N]'),
    ],
    [
      'words that are split into as many as the longest row has',
      mixed("StringSplit 'y': its rows decide the shape", 'y,n = StringSplit x delimiter=_', 'BYTES[N]', 'BYTES[N,n]'),
    ],
    [
      'a rare row that turns its whole run into NaN',
      mixed("ReduceSum 'all': it reduces all", 'all = ReduceSum x keepdims=0; none = Mul all 0.0; y = Add x none'),
    ],
  ])('is told by its graph: %s', async (_, one) => {
    expect(await proofOf(one)).toMatchObject({ verdict: 'mixes', why: expect.stringContaining(one.why as string) });
  });

  const LENGTH_OF_X = 'length = Shape x start=1';
  it.each<[string, Case, string]>([
    [
      'a scale',
      apart(`${LENGTH_OF_X}; n = Cast length to=1; scale = Log n; y = Mul x scale`, 'F[N,length]'),
      "Mul 'y'",
    ],
    [
      'a scale for rows longer than any that was imagined',
      apart(
        `${LENGTH_OF_X}; is = Less [2000] length; i = Cast is to=7; one = Gather i [0]; n = Cast one to=1; y = Add x n`,
        'F[N,length]',
      ),
      "Add 'y'",
    ],
    [
      'a branch',
      nested(undefined, `${LENGTH_OF_X}; is = Less [2000] length; c = Squeeze is`, 'c', LONG_BRANCHES, 'F[N,length]'),
      "If 'y'",
    ],
  ])('is told by its graph: %s that depends on the padded length', async (_, one, byLength) => {
    expect(await proofOf(one, 'length')).toMatchObject({ verdict: 'independent', byLength });
  });

  it('does not take an index for data, though it is computed from the padded length', async () => {
    const one = apart(`${FLAT_INDEXES}; flat = Reshape x [-1]; y = Gather flat at`, 'F[N,length]');
    expect(await proofOf(one, 'length')).toEqual({
      verdict: 'independent',
      operator: '',
      why: '',
      byLength: undefined,
    });
  });
});

/** A function of the model whose softmax takes the axis from its call, if it has one. */
function withAxisOfCall(one: Case): Case {
  const bytes = changed(one.bytes, (proto) => {
    const [call] = proto.graph?.node ?? [];
    if (call != null) call.domain = 'mine';
    proto.opsetImport.push({ domain: 'mine', version: 1 });
    const attribute = [{ name: 'axis', refAttrName: 'axis', type: 2 }];
    const softmax = { opType: 'Softmax', name: 'inner', input: ['in'], output: ['out'], attribute };
    const opsetImport = [{ domain: '', version: 21 }];
    const of = { input: ['in'], output: ['out'], attribute: ['axis'], node: [softmax], opsetImport };
    proto.functions = [{ name: 'Normed', domain: 'mine', ...of }];
  });
  return { ...one, bytes };
}

describe('a graph', () => {
  it.each([
    [
      'an operator that is not in the table',
      mixed("Det 'd': operator Det is not in", 'd = Det x; y = Add d d', 'F[N,4,4]', 'F[N]'),
    ],
    [
      'an operator of another domain',
      { ...mixed('operator Softmax is not in the table', 'y = Softmax x'), ofDomain: 'mine' },
    ],
    [
      'a scan that carries something on',
      nested("Scan 'sum': what it carries on is not followed", '', 'x x', {
        num_scan_inputs: 1,
        body: body(
          'before FP32[4]; row FP32[4]',
          'after FP32[4]; made FP32[4]',
          'after = Add before row; made = Identity after',
        ),
      }),
    ],
    [
      'a branch for sounds of one size, longer than some that are imagined',
      {
        ...amidst(
          'k = Conv x w(1,1,100) kernel_shape=[100]; t = Shape k start=2; is = Equal t [1]; c = Squeeze is',
          ['If', 'c'],
          {
            then_branch: body('', 'a F[N,1]', 'a = Squeeze k [2]'),
            else_branch: body('', 'b F[N,1,time]', 'b = Identity k'),
          },
          'u = Unsqueeze z [0]; s = Softmax u axis=1; y = Squeeze s [0]',
          'F[N,1,length]',
        ),
        why: "If 'z': its branches treat rows differently",
      },
    ],
    [
      'a write by tuple',
      mixed("ScatterND 'y': it writes by indexes", 'y = ScatterND x at new', 'F[N,4]; at I[N,1]; new F[N,4]'),
    ],
    [
      'an output without rows',
      mixed("output 'y': it has no row for each row", 'y = Identity w(4)', 'F[N,4]', 'FP32[4]'),
    ],
  ] as [string, Case & { readonly ofDomain?: string }][])('does not tell of %s', async (_, { ofDomain, ...one }) => {
    const bytes = changed(one.bytes, ({ graph }) => {
      if (ofDomain !== undefined) for (const each of graph?.node ?? []) each.domain = ofDomain;
    });
    expect(await proofOf({ ...one, bytes })).toMatchObject({
      verdict: 'unknown',
      why: expect.stringContaining(one.why as string),
    });
  });

  it('of an old operator set has a softmax over an axis and all behind it, and trains if it gives statistics', async () => {
    const old = (text: string, x?: string) => {
      const one = mixed('', text, x);
      return proofOf({ ...one, bytes: withOpset(one.bytes, '', 11) });
    };
    expect(await old('y = Softmax x axis=1', CUBE)).toMatchObject({ verdict: 'independent' });
    expect(await old(`y,m,v,n,w = BatchNormalization x ${NORMAL}`)).toMatchObject({ verdict: 'mixes' });
    const turned = 't = Transpose x perm=[1,0,2]; s = Softmax t axis=0; y = Transpose s perm=[1,0,2]';
    expect(await old(turned, CUBE)).toMatchObject({ verdict: 'mixes', why: expect.stringContaining("Softmax 's'") });
  });

  it.each([
    ['axis=1', 'independent', ''],
    ['axis=0', 'mixes', "Softmax 'inner'"],
    ['', 'independent', ''],
  ])('is followed into its functions, with the attributes that they are given: %s', async (given, verdict, why) => {
    const one = withAxisOfCall(mixed('', `y = Normed x ${given}`.trim()));
    expect(await proofOf(one)).toMatchObject({ verdict, why: expect.stringContaining(why) });
  });

  it('may have FP16 constants as bits: -2 is an axis', async () => {
    const one = apart('axis = Cast u8(49152) to=7; y = CumSum x axis');
    const bytes = changed(one.bytes, ({ graph }) => {
      for (const each of graph?.initializer ?? []) each.dataType = 10;
    });
    expect((await proofOf({ ...one, bytes })).verdict).toBe('mixes');
  });
});
