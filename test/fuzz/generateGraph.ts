import { type Constant, DataType, encodeModel, type GraphNode } from '../../bench/workload/encodeModel.ts';
import type { Random } from '../../bench/workload/random.ts';
import type { Datatype } from '../../lambda/core/tensor.ts';
import { float, floats, int, ints, ml, node, weights } from '../helpers/graph.ts';
import { pick, rarely } from './mutate.ts';

type Dim = number | 'batch' | 'length';

/** A value of a generated graph. It is mixed where its rows may depend on each other, or on how many there are. */
export interface Value {
  readonly name: string;
  readonly datatype: Datatype;
  readonly dims: readonly Dim[];
  readonly isMixed: boolean;
}

export interface Generated {
  readonly bytes: Uint8Array;
  readonly config: Readonly<Record<string, unknown>>;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly nodes: readonly GraphNode[];
}

/** What adds nodes to a graph. */
function createBuilder(random: Random) {
  const nodes: GraphNode[] = [];
  const constants: Constant[] = [];
  const values: Value[] = [];
  let names = 0;
  const constant = (make: (name: string) => Constant): string => {
    names += 1;
    constants.push(make(`c${names}`));
    return `c${names}`;
  };
  const name = (): string => {
    names += 1;
    return `v${names}`;
  };
  return {
    random,
    nodes,
    constants,
    values,
    constant,
    name,
    /** One node with one output, like its first value but for what is said. @param inputs `x` stands for it */
    add(
      op: string,
      x: Value,
      inputs: string,
      change: Partial<Value> = {},
      attributes: GraphNode['attributes'] = {},
    ): Value {
      const made = { ...x, ...change, name: name(), isMixed: x.isMixed || (change.isMixed ?? false) };
      nodes.push(node(op, inputs.replace(/\bx\b/, x.name), made.name, attributes));
      values.push(made);
      return made;
    },
  };
}

type Builder = ReturnType<typeof createBuilder>;

const UNARY = [
  'Relu',
  'Sigmoid',
  'Tanh',
  'Abs',
  'Neg',
  'Erf',
  'Softplus',
  'Floor',
  'Sin',
  'Elu',
  'HardSwish',
  'Identity',
  'Sign',
  'LeakyRelu',
  'Clip',
  'Dropout',
];
const REDUCE = ['ReduceMean', 'ReduceMax', 'ReduceMin', 'ReduceSum', 'ReduceL2'];

function isOver(dims: readonly Dim[], axis: number): boolean {
  return dims.at(axis) === 'batch';
}

/** The same axis, from either end. */
function anAxis(random: Random, { dims }: Value): number {
  const axis = random.below(dims.length);
  return rarely(random, 2) ? axis : axis - dims.length;
}

function lastSize({ dims }: Value): number | undefined {
  const last = dims.at(-1);
  return typeof last === 'number' && dims.length > 1 ? last : undefined;
}

/** Each adds what is of its kind to float32 `x`, where that fits it. */
const STEPS: readonly ((x: Value, builder: Builder) => void)[] = [
  (x, { random, add }) => void add(pick(random, UNARY), x, 'x'),
  (x, { random, add }) => void add(pick(random, UNARY), x, 'x'),
  (x, { random, add, constant }) => {
    const size = lastSize(x);
    const by = constant((name) =>
      size === undefined || rarely(random, 2) ? float(name, random.normal()) : weights(name, size),
    );
    add(pick(random, ['Add', 'Sub', 'Mul', 'Div', 'Max', 'Min']), x, `x ${by}`);
  },
  (x, { random, add, values }) => {
    const alike = values.filter(({ dims, datatype }) => datatype === 'FP32' && dims.join() === x.dims.join());
    const other = pick(random, alike);
    add(pick(random, ['Add', 'Sub', 'Mul', 'Max']), x, `x ${other.name}`, { isMixed: other.isMixed });
  },
  (x, { random, add, constant }) => {
    const size = lastSize(x);
    if (size === undefined) return;
    const to = 1 + random.below(6);
    add('MatMul', x, `x ${constant((name) => weights(name, size, to))}`, { dims: [...x.dims.slice(0, -1), to] });
  },
  (x, { random, add }) => {
    const axis = anAxis(random, x);
    add(
      pick(random, ['Softmax', 'LogSoftmax', 'LpNormalization']),
      x,
      'x',
      { isMixed: isOver(x.dims, axis) },
      { axis },
    );
  },
  (x, { random, add, constant }) => {
    const axis = anAxis(random, x);
    add('CumSum', x, `x ${constant((name) => ({ ...ints(name, axis), dims: [] }))}`, { isMixed: isOver(x.dims, axis) });
  },
  (x, { random, add, constant }) => {
    const axis = anAxis(random, x);
    const isMixed = isOver(x.dims, axis);
    const by = constant((name) => ints(name, axis));
    const keepdims = isMixed || rarely(random, 2) ? 1 : 0;
    const at = axis < 0 ? axis + x.dims.length : axis;
    const dims = keepdims === 1 ? x.dims.with(at, 1) : x.dims.toSpliced(at, 1);
    const reduced = add(pick(random, REDUCE), x, `x ${by}`, { dims, isMixed }, { keepdims });
    if (keepdims === 1) add('Sub', x, `x ${reduced.name}`, { isMixed });
  },
  (x, { random, add }) => {
    const perm = x.dims.map((_, at) => at).toSorted(() => random.next() - 0.5);
    add('Transpose', x, 'x', { dims: perm.map((at) => x.dims[at] as Dim) }, { perm });
  },
  (x, { random, add, constant }) => {
    const axis = anAxis(random, x);
    const from = constant((name) => ints(name, -1));
    const to = constant((name) => ints(name, -1_000_000));
    const along = constant((name) => ints(name, axis));
    add('Slice', x, `x ${from} ${to} ${along} ${from}`, { isMixed: isOver(x.dims, axis) });
  },
  (x, { random, add, constant }) => {
    const axis = random.below(x.dims.length);
    const size = x.dims[axis];
    const of = (name: string) => ints(name, ...(typeof size === 'number' ? [size - 1, 0] : [0]));
    const isMixed = isOver(x.dims, axis);
    const dims = x.dims.with(axis, typeof size === 'number' ? 2 : 1);
    const taken = add('Gather', x, `x ${constant(of)}`, { dims, isMixed }, { axis });
    if (typeof size !== 'number') add('Add', x, `x ${taken.name}`, { isMixed });
  },
  (x, { random, add, values }) => {
    const axis = x.dims.findIndex((dim) => typeof dim === 'number');
    const others = values.filter(
      ({ dims, datatype }) =>
        axis >= 0 &&
        dims.length === x.dims.length &&
        datatype === 'FP32' &&
        dims.with(axis, 1).join() === x.dims.with(axis, 1).join(),
    );
    if (others.length === 0) return;
    const other = pick(random, others);
    const dims = x.dims.with(axis, Number(x.dims[axis]) + Number(other.dims[axis]));
    if (Number(dims[axis]) < 40) add('Concat', x, `x ${other.name}`, { dims, isMixed: other.isMixed }, { axis });
  },
  (x, { random, add }) => {
    const axis = anAxis(random, x);
    const at = axis < 0 ? axis + x.dims.length : axis;
    if (isOver(x.dims, axis)) return;
    const change = { dims: x.dims.toSpliced(at, 1), datatype: 'INT64' } as const;
    add(pick(random, ['ArgMax', 'ArgMin']), x, 'x', change, { axis, keepdims: 0 });
  },
  (x, { add, constant }) => {
    const size = lastSize(x);
    if (size !== undefined) add('LayerNormalization', x, `x ${constant((name) => weights(name, size))}`);
  },
  (x, { random, add, constant, nodes, name }) => {
    const channels = x.dims[1];
    if (x.dims[0] !== 'batch' || typeof channels !== 'number') return;
    const of = (value: number) => constant((called) => floats(called, ...new Array<number>(channels).fill(value)));
    const training_mode = rarely(random, 3) ? 1 : 0;
    const normal = add(
      'BatchNormalization',
      x,
      `x ${of(1.5)} ${of(0.5)} ${of(0.1)} ${of(2)}`,
      { isMixed: training_mode === 1 },
      { training_mode },
    );
    if (training_mode === 1) nodes.push({ ...(nodes.pop() as GraphNode), outputs: [normal.name, name(), name()] });
  },
  (x, { random, add, constant }) => {
    const [batch, channels, size] = x.dims;
    if (batch !== 'batch' || typeof channels !== 'number' || size === undefined || x.dims.length !== 3) return;
    const to = 1 + random.below(3);
    const kernel = constant((name) => weights(name, to, channels, 3));
    add('Conv', x, `x ${kernel}`, { dims: ['batch', to, size] }, { kernel_shape: [3], pads: [1, 1] });
  },
  (x, { add, nodes, name }) => {
    const [quantised, scale, zero] = [name(), name(), name()];
    nodes.push(node('DynamicQuantizeLinear', x.name, `${quantised} ${scale} ${zero}`));
    add('DequantizeLinear', x, `${quantised} ${scale} ${zero}`, { isMixed: true });
  },
  (x, { random, add, constant, nodes, name }) => {
    const quantised = name();
    const scale = constant((called) => float(called, 0.01 + random.next() / 8));
    const zero = constant((called) => ({ name: called, dataType: DataType.UINT8, dims: [], int32Data: [128] }));
    nodes.push(node('QuantizeLinear', `${x.name} ${scale} ${zero}`, quantised));
    add('DequantizeLinear', x, `${quantised} ${scale} ${zero}`);
  },
  (x, { add, constant, nodes, name }) => {
    const above = name();
    nodes.push(node('Greater', `${x.name} ${constant((called) => float(called, 0.3))}`, above));
    add('Where', x, `${above} x ${constant((called) => float(called, -1))}`);
  },
  (x, { random, add }) => {
    const through = pick(random, [DataType.FLOAT16, DataType.DOUBLE, DataType.INT32]);
    add(
      'Cast',
      add('Cast', x, 'x', { datatype: 'BYTES' }, { to: through }),
      'x',
      { datatype: 'FP32' },
      { to: DataType.FLOAT },
    );
  },
  (x, { add, constant, nodes, name }) => {
    const [most, above] = [name(), name()];
    nodes.push(node('ReduceMax', x.name, most, { keepdims: 0 }));
    nodes.push(node('Greater', `${most} ${constant((called) => float(called, 4))}`, above));
    add('Where', x, `${above} x ${constant((called) => float(called, 0.5))}`, { isMixed: true });
  },
  (x, { add, nodes, name }) => {
    const [shape, counts] = [name(), name()];
    const at = x.dims.indexOf('batch');
    if (at < 0) return;
    nodes.push(
      node('Shape', x.name, shape, { start: at, end: at + 1 }),
      node('Cast', shape, counts, { to: DataType.FLOAT }),
    );
    add('Div', x, `x ${counts}`, { isMixed: true });
  },
  (x, { add, constant }) => {
    const sizes = x.dims.slice(1);
    if (x.dims[0] !== 'batch' || sizes.length < 2 || !sizes.every((size) => typeof size === 'number')) return;
    const flat = sizes.reduce((product, size) => product * size, 1);
    add('Reshape', x, `x ${constant((name) => ints(name, -1, flat))}`, { dims: ['batch', flat] });
  },
  (x, { add, constant }) => {
    const size = lastSize(x);
    if (x.dims[0] !== 'batch' || x.dims.length !== 3 || size === undefined) return;
    const turned = add('Transpose', x, 'x', { dims: [x.dims[1] as Dim, 'batch', size] }, { perm: [1, 0, 2] });
    const run = add(
      'GRU',
      turned,
      `x ${constant((name) => weights(name, 1, 6, size))} ${constant((name) => weights(name, 1, 6, 2))}`,
      { dims: [x.dims[1] as Dim, 1, 'batch', 2] },
      { hidden_size: 2 },
    );
    add('Transpose', run, 'x', { dims: ['batch', 1, x.dims[1] as Dim, 2] }, { perm: [2, 1, 0, 3] });
  },
  (x, { random, add }) => {
    const [batch, channels, size] = x.dims;
    if (batch !== 'batch' || typeof channels !== 'number' || x.dims.length !== 3 || size === undefined) return;
    if (rarely(random, 2)) add('GlobalAveragePool', x, 'x', { dims: ['batch', channels, 1] });
    else add(pick(random, ['MaxPool', 'AveragePool']), x, 'x', {}, { kernel_shape: [3], pads: [1, 1] });
  },
  (x, { random, add, constant }) => {
    const axis = anAxis(random, x);
    const dims = x.dims.with(axis, 1);
    const one = constant((name) => ints(name, 1));
    add('TopK', x, `x ${one}`, { dims, isMixed: isOver(x.dims, axis) }, { axis });
  },
  (x, { random, add, constant }) => {
    const size = lastSize(x);
    if (size === undefined) return;
    const zeros = x.dims.map(() => 0);
    const pads = [...zeros, ...zeros.with(-1, 1)];
    if (rarely(random, 2))
      add('Pad', x, `x ${constant((name) => ints(name, ...pads))}`, { dims: x.dims.with(-1, size + 1) });
    else
      add('Tile', x, `x ${constant((name) => ints(name, ...zeros.map(() => 1).with(-1, 2)))}`, {
        dims: x.dims.with(-1, 2 * size),
      });
  },
  (x, { random, add, constant }) => {
    const axis = random.below(x.dims.length + 1);
    const at = constant((name) => ints(name, axis));
    const wide = add('Unsqueeze', x, `x ${at}`, { dims: x.dims.toSpliced(axis, 0, 1) });
    if (rarely(random, 2)) add('Squeeze', wide, `x ${at}`, { dims: x.dims });
  },
  (x, { random, add }) => {
    if (x.dims.length === 3) add('Trilu', x, 'x', { isMixed: x.dims[0] !== 'batch' }, { upper: random.below(2) });
  },
  (x, { add, constant }) => {
    const [batch, size] = x.dims;
    if (batch !== 'batch' || typeof size !== 'number' || x.dims.length !== 2) return;
    const table = constant((name) => weights(name, size, 3));
    add('Einsum', x, `x ${table}`, { dims: ['batch', 3] }, { equation: 'bi,ij->bj' });
  },
  (x, { add, constant }) => {
    const size = lastSize(x);
    if (size === undefined) return;
    const largest = add('ArgMax', x, 'x', { datatype: 'INT64', dims: x.dims.slice(0, -1) }, { axis: -1, keepdims: 0 });
    const [depth, between] = [constant((name) => int(name, 3)), constant((name) => floats(name, 0, 1))];
    add('OneHot', { ...largest, datatype: 'FP32' }, `x ${depth} ${between}`, { dims: largest.dims.concat(3) });
  },
  (x, { add, nodes, name }) => {
    const [shape, zeros] = [name(), name()];
    nodes.push(node('Shape', x.name, shape), node('ConstantOfShape', shape, zeros));
    add('Max', x, `x ${zeros}`);
  },
  (x, { random, add, nodes, name, constant, values }) => {
    if (x.dims[0] !== 'batch' || x.dims.length !== 3) return;
    const [rows, length, shape] = [name(), name(), name()];
    const open = constant((called) => ints(called, -1));
    nodes.push(
      node('Shape', x.name, rows, { start: 0, end: 1 }),
      node('Shape', x.name, length, { start: 1, end: 2 }),
      node('Concat', `${rows} ${length} ${open}`, shape, { axis: 0 }),
    );
    const flat = add('Flatten', x, 'x', {}, { axis: 1 + random.below(2) });
    // Its rows may be those of its second axis too.
    values.pop();
    add('Reshape', flat, `x ${shape}`);
  },
  (x, { add, nodes }) => {
    const [batch, size] = x.dims;
    if (batch !== 'batch' || typeof size !== 'number' || x.dims.length !== 2) return;
    const made = add('Normalizer', x, 'x', {}, { norm: 'L2' });
    nodes.push({ ...(nodes.pop() as GraphNode), domain: 'ai.onnx.ml', outputs: [made.name] });
  },
  (x, { add, nodes, name, constant }) => {
    const [rows, count, numbers, places] = [name(), name(), name(), name()];
    if (x.dims.length !== 1 || x.dims[0] !== 'batch') return;
    const [from, step] = [constant((called) => int(called, 0)), constant((called) => int(called, 1))];
    nodes.push(
      node('Shape', x.name, rows),
      node('Squeeze', rows, count),
      node('Range', `${from} ${count} ${step}`, numbers),
      node('Cast', numbers, places, { to: DataType.FLOAT }),
    );
    add('Add', x, `x ${places}`, { isMixed: true });
  },
];

/** An input, and the float32 value that is made of it. */
function addInput(builder: Builder, index: number, hasLength: boolean): Value {
  const { random, nodes, constant, name, values } = builder;
  const size = 1 + random.below(5);
  const dims = pick(random, [
    ['batch', size],
    ['batch', hasLength ? 'length' : 3, size],
    ['batch', size, 4],
    ['batch'],
  ] satisfies Dim[][]);
  const datatype = pick(random, ['FP32', 'FP32', 'FP32', 'INT64', 'BYTES'] as const);
  const input: Value = { name: `in${index}`, datatype, dims, isMixed: false };
  const made: Value = { ...input, datatype: 'FP32', name: datatype === 'FP32' ? input.name : name() };
  if (datatype === 'BYTES') {
    const keys = { keys_strings: WORDS, values_floats: { floats: [1, -2, 3, 0.5] } };
    nodes.push(ml('LabelEncoder', input.name, made.name, keys));
  }
  if (datatype === 'INT64') {
    nodes.push(node('Gather', `${constant((called) => weights(called, 4, 2))} ${input.name}`, made.name));
    values.push({ ...made, dims: [...dims, 2] });
  } else values.push(made);
  return input;
}

export const WORDS = ['a', 'b', 'c', 'd'];

/** @returns undefined where nothing that was made has rows */
export function generateGraph(random: Random): Generated | undefined {
  const builder = createBuilder(random);
  const hasLength = rarely(random, 3);
  const inputs = Array.from({ length: 1 + random.below(2) }, (_, index) => addInput(builder, index, hasLength));
  const { values, nodes, constants } = builder;
  for (let steps = 1 + random.below(9); steps > 0; steps--) {
    const usable = values.filter(({ datatype, dims }) => datatype === 'FP32' && dims.length > 0);
    // The later ones more often, so that graphs grow deep.
    const x = usable[Math.max(random.below(usable.length), random.below(usable.length))] as Value;
    pick(random, STEPS)(x, builder);
  }
  const given = values.filter(
    ({ name, datatype, dims }) =>
      datatype !== 'BYTES' && !name.startsWith('in') && dims.filter((dim) => dim === 'batch').length === 1,
  );
  const outputs = [...new Set([given.at(-1), given.at(-1 - random.below(3))])].filter((value) => value !== undefined);
  if (outputs.length === 0) return undefined;
  const ragged = inputs.filter(({ dims }) => dims.includes('length'));
  const pad = Object.fromEntries(ragged.map(({ name, datatype }) => [name, datatype === 'BYTES' ? 'a' : 0]));
  const batchAxis = Object.fromEntries(outputs.map(({ name, dims }) => [name, dims.indexOf('batch')]));
  const config = {
    sessionOptions: { logSeverityLevel: 4 },
    batchAxis,
    ...(ragged.length > 0 && rarely(random, 2) && { ragged: { axis: 'length', pad } }),
    ...(rarely(random, 4) && { maxBatchRows: 1 + random.below(40) }),
    ...(rarely(random, 8) && { allowedSizes: [2, 8, 32] }),
  };
  const shaped = (value: Value) => ({ ...value, shape: value.dims });
  const bytes = encodeModel({ inputs: inputs.map(shaped), outputs: outputs.map(shaped), nodes, constants });
  return { bytes, config, inputs, outputs, nodes };
}
