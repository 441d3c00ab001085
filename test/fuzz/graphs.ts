import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as ort from 'onnxruntime-node';
import { type Constant, DataType, encodeModel, type GraphNode } from '../../bench/workload/encodeModel.ts';
import { createRandom, type Random } from '../../bench/workload/random.ts';
import { messageOf } from '../../lambda/core/failure.ts';
import type { Datatype } from '../../lambda/core/tensor.ts';
import { createRowScoring } from '../../lambda/jobs/scoreRows.ts';
import { openRepository } from '../../lambda/onnx/repository.ts';
import { float, floats, ints, ml, node, weights } from '../helpers/graph.ts';
import { scoreModels } from '../helpers/scoring.ts';
import { pick, rarely } from './mutate.ts';
import { putFiles, type Target } from './target.ts';

type Dim = number | 'batch' | 'length';

/** A value of a generated graph. It is mixed where its rows may depend on each other, or on how many there are. */
interface Value {
  readonly name: string;
  readonly datatype: Datatype;
  readonly dims: readonly Dim[];
  readonly isMixed: boolean;
}

interface Generated {
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

const WORDS = ['a', 'b', 'c', 'd'];

/** @returns undefined where nothing that was made has rows */
function generate(random: Random): Generated | undefined {
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

interface Input {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: readonly (number | string)[];
}

function requestTo({ inputs }: Generated, random: Random): Input[] {
  const rows = 1 + random.below(3);
  const length = 1 + random.below(5);
  return inputs.map(({ name, datatype, dims }) => {
    const shape = dims.map((dim) => (dim === 'batch' ? rows : dim === 'length' ? length : dim));
    const count = shape.reduce((product, size) => product * size, 1);
    const one = (): number | string => {
      if (datatype === 'BYTES') return pick(random, WORDS);
      return datatype === 'INT64' ? random.below(4) : Math.fround(random.normal() * pick(random, [1, 1, 1, 10]));
    };
    return { name, datatype, shape, data: Array.from({ length: count }, one) };
  });
}

const ORT_TYPE = { FP32: 'float32', INT64: 'int64', BYTES: 'string' } as const;

function toTensor({ datatype, shape, data }: Input): ort.Tensor {
  if (datatype === 'INT64') return new ort.Tensor('int64', BigInt64Array.from(data, BigInt), shape);
  if (datatype === 'BYTES') return new ort.Tensor('string', data as string[], shape);
  return new ort.Tensor(ORT_TYPE.FP32, Float32Array.from(data, Number), shape);
}

function feedsOf(inputs: readonly Input[]): Record<string, ort.Tensor> {
  return Object.fromEntries(inputs.map((input) => [input.name, toTensor(input)]));
}

/** Requests of one wave are scored together; after the first some have been compared by the host itself. */
const WAVES = [24, 40, 40] as const;
const LIMITS = {
  maxRequestRows: 100,
  maxRequestsPerMessage: 100,
  maxAnswerCharacters: 1_000_000,
  maxBatchElements: 1_000_000,
  deadlineMarginMs: 1,
};

/**
 * Generated models: what each request is answered among others is compared with what ONNX Runtime itself gives for it
 * alone. A model may be refused when it is opened; an answer may not differ.
 */
export async function openGraphs(): Promise<Target> {
  const answers: Record<string, number> = {};
  const count = (what: string): void => {
    answers[what] = (answers[what] ?? 0) + 1;
  };
  return {
    answers,
    isUnlimited: true,
    make: (random) => String(random.below(2 ** 31)),
    async check(inputs) {
      const found: (string | undefined)[] = [];
      for (const seed of inputs) found.push(await checkGraph(createRandom(Number(seed)), count));
      return found;
    },
  };
}

async function checkGraph(random: Random, count: (what: string) => void): Promise<string | undefined> {
  const graph = generate(random);
  if (graph === undefined) return undefined;
  const kind = graph.outputs.some(({ isMixed }) => isMixed) ? 'mixing' : 'sound';
  const options = { logSeverityLevel: 4, intraOpNumThreads: 1 } as const;
  const session = await ort.InferenceSession.create(graph.bytes, options).catch(messageOf);
  if (typeof session === 'string') {
    count('invalid');
    return undefined;
  }
  const directory = await mkdtemp(join(tmpdir(), 'batchscore-fuzz-'));
  try {
    await putFiles(directory, { 'm/1/model.onnx': graph.bytes, 'm/config.json': JSON.stringify(graph.config) });
    const said: string[] = [];
    const repository = await openRepository({
      directory,
      maxBatchRows: 128,
      maxBatchElements: LIMITS.maxBatchElements,
      providers: ['cpu'],
      allowProviderFallback: false,
      preload: true,
      warn: () => {},
      inform: (line) => void said.push(line),
    }).catch(messageOf);
    if (typeof repository === 'string') {
      count(`${kind}, refused`);
      return undefined;
    }
    let shared = 0;
    const observer = { microBatch: ({ requests }: { requests: number }) => void (requests > 1 && shared++) };
    const scoring = createRowScoring({ score: scoreModels(repository, LIMITS, 1), observer });
    let wrong: string | undefined;
    // Some answer the same request differently each time, such as those that change what they hold when they are run.
    const isSteady = async (): Promise<boolean> => {
      const again = createRandom(1);
      const requests = Array.from({ length: WAVES[0] }, () => requestTo(graph, again));
      const answers = async (): Promise<string> => {
        const all: string[] = [];
        for (const inputs of requests) {
          const outputs = await session.run(feedsOf(inputs)).catch(() => ({}));
          for (const { data } of Object.values<ort.Tensor>(outputs)) all.push(Array.from(data, String).join());
        }
        return all.join(';');
      };
      const [first, second] = [await answers(), await answers()];
      return first === second;
    };
    for (const size of WAVES) {
      const requests = Array.from({ length: size }, () => requestTo(graph, random));
      const rows = requests.map((inputs, id) => ({ id: `${id}`, text: JSON.stringify({ inputs }) }));
      const scored = await scoring.score(rows);
      for (const [index, inputs] of requests.entries()) {
        const alone = await session.run(feedsOf(inputs)).catch(messageOf);
        const answer = scored.answers[index]?.text ?? '{}';
        if (!isTooMany(answer, inputs, graph, said)) wrong ??= differenceOf(answer, alone);
      }
    }
    await repository.close();
    if (wrong !== undefined && !(await isSteady())) {
      count('random');
      return undefined;
    }
    count(`${kind}, ${shared > 0 ? 'batched' : 'alone'}`);
    return wrong && `${wrong}; ${kind}, ${shared} shared runs, ${said.join('; ')}; ${described(graph)}`;
  } finally {
    await rm(directory, { recursive: true });
    await session.release();
  }
}

/** A request that may not be cut, as its rows depend on each other or are not proved, is refused where no run has so many rows. */
function isTooMany(answer: string, [input]: readonly Input[], graph: Generated, said: readonly string[]): boolean {
  const { outputs, inputs, config } = graph;
  const rows = input?.shape[inputs[0]?.dims.indexOf('batch') ?? 0] ?? 0;
  const isWhole = outputs.some((one) => one.isMixed) || said.some((one) => one.includes('requests run one at a time'));
  return isWhole && rows > Number(config.maxBatchRows) && JSON.parse(answer).code === 'TOO_MANY_ROWS';
}

function described({ nodes, inputs, outputs, config }: Generated): string {
  const value = ({ name, datatype, dims, isMixed }: Value) => `${name} ${datatype}[${dims}]${isMixed ? ' mixed' : ''}`;
  const one = ({ op, inputs, outputs, attributes }: GraphNode) =>
    `${outputs} = ${op}(${inputs}) ${JSON.stringify(attributes)}`;
  return `${inputs.map(value).join(', ')}: ${nodes.map(one).join('; ')}: ${outputs.map(value).join(', ')}; ${JSON.stringify(config)}`;
}

/** Of the largest of a value and 1. */
const ROUNDING = 2e-3;

function differenceOf(answer: string, alone: ort.InferenceSession.OnnxValueMapType | string): string | undefined {
  const { outputs = [], code, error } = JSON.parse(answer);
  if (typeof alone === 'string') return code === 'RUN_FAILED' ? undefined : `expected ${alone}, got ${answer}`;
  if (code !== undefined) return `expected scores, got ${error}`;
  if (outputs.length !== Object.keys(alone).length) return `expected ${Object.keys(alone)}, got ${answer}`;
  for (const { name, shape, data } of outputs) {
    const due = alone[name] as ort.Tensor;
    if (`${due.dims}` !== `${shape}`) return `${name}: expected the shape ${due.dims}, got ${shape}`;
    const wanted = Array.from(due.data as ArrayLike<number | bigint>, Number);
    const limit = due.type === 'float32' ? ROUNDING : 0;
    const at = wanted.findIndex((one, index) => {
      const got = Number(data[index]);
      return !(Object.is(got, one) || got === one || Math.abs(got - one) <= limit * Math.max(1, Math.abs(one)));
    });
    if (at >= 0) return `${name}[${at}]: expected ${wanted[at]}, got ${data[at]}`;
  }
  return undefined;
}
