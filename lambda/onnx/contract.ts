import { isFailure, plural } from '../core/failure.ts';
import {
  axisInModel,
  axisRowsFirst,
  listNames,
  type Model,
  type RaggedAxis,
  shapeInModel,
  type TensorSpec,
} from '../core/model.ts';
import { nestingOf } from '../core/requestInputs.ts';
import { datatypeOfOnnxType, elementCount, moveDim, type Tensor } from '../core/tensor.ts';
import { decodeData, pathWithin } from '../core/values.ts';
import type { RaggedConfig } from './modelConfig.ts';
import type { SessionMetadata, ValueDescription } from './sessionOrders.ts';

export interface ModelContract extends BakedRows {
  /** Inputs in requests. */
  readonly inputs: readonly TensorSpec[];
  /** Outputs that runs compute. */
  readonly outputs: readonly TensorSpec[];
  /** Inputs with a value in config.json. They have no batch axis. */
  readonly constants: readonly TensorSpec[];
}

interface ContractSettings {
  /** Outputs to compute, in order. @default all */
  readonly outputs?: readonly string[] | undefined;
  /** Batch axis by name of an input or output. @default 0 */
  readonly batchAxis?: Readonly<Record<string, number>> | undefined;
  /** Value in every run by name of an input. */
  readonly constants?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * Reads the contract of a model from its session's metadata.
 *
 * @throws Error if config.json must say more, with the text to add; if a value's type is not supported, or a setting
 *   contradicts the model
 */
export function readContract(metadata: SessionMetadata, settings: ContractSettings = {}): ModelContract {
  const { batchAxis = {}, constants = {} } = settings;
  const all = metadata.inputs.map(readInput);
  refuseOtherNames('constants', Object.keys(constants), all);
  const chosen = chosenOf(metadata.outputs, settings.outputs);
  const outputs = chosen.map(readTensor).filter((spec) => spec !== undefined);
  const others = chosen.filter((value) => readTensor(value) === undefined);
  const otherProblems = others.map((value) => `output '${value.name}': ${NOT_CARRIED}, got ${kindOf(value)}`);
  if (outputs.length === 0) throw new Error(`${otherProblems.join('; ')}; ${EXPORT_TENSORS}`);

  const isConstant = ({ name }: TensorSpec): boolean => Object.hasOwn(constants, name);
  const given = all.filter((spec) => !isConstant(spec));
  const scalars = given.filter(({ shape }) => shape.length === 0);
  const inputs = given.filter(({ shape }) => shape.length > 0);
  refuseOtherNames('batchAxis', Object.keys(batchAxis), [...inputs, ...outputs]);
  if (inputs.length === 0) {
    const names = scalars.length > 0 ? `scalars: ${listNames(scalars)}` : `"constants": ${listNames(all)}`;
    const got = all.length === 0 ? 'none' : `only ${names}`;
    throw new Error(`expected a model with at least one input for requests, got ${got}`);
  }
  const axes = findAxes(inputs, outputs, batchAxis);
  const problems = [
    ...scalars.map(({ name }) => `input '${name}': expected a batch axis, got a scalar`),
    ...axes.problems,
    ...otherProblems,
  ];
  if (problems.length > 0) {
    const missing = [...scalars, ...axes.weights];
    const block = {
      ...(others.length > 0 && { outputs: outputs.map(({ name }) => name) }),
      ...(Object.keys(axes.batchAxis).length > 0 && { batchAxis: axes.batchAxis }),
      ...(missing.length > 0 && { constants: Object.fromEntries(missing.map(({ name }) => [name, null])) }),
    };
    const toFill = missing.length === 0 ? '' : `, with the values of ${listNames(missing)} in place of null`;
    throw new Error(`${problems.join('; ')}; add to config.json${toFill}: ${JSON.stringify(block)}`);
  }
  const rowsFirst = inputs.map((spec) => withBatchAxis(spec, batchAxis));
  refuseNoRows(rowsFirst);
  return {
    inputs: rowsFirst,
    outputs: outputs.map((spec) => withBatchAxis(spec, batchAxis)),
    constants: all.filter(isConstant),
    ...readBakedRows(rowsFirst),
  };
}

/** Advice for a model whose batch axis has a fixed size. */
export const EXPORT_DYNAMIC =
  'export the model with a dynamic batch axis (torch.onnx.export: dynamic_axes or dynamic_shapes with axis 0)';

/**
 * Refuses inputs with a batch axis of size 0. Exporters write it for an unknown size; ONNX Runtime takes it literally.
 */
function refuseNoRows(inputs: readonly TensorSpec[]): void {
  const empty = inputs.filter(({ shape }) => shape[0] === 0);
  if (empty.length === 0) return;
  throw new Error(
    `${empty.length === 1 ? 'input' : 'inputs'} ${listNames(empty)}: expected a batch axis with room for rows, but the batch ` +
      `axis is fixed at 0; ${EXPORT_DYNAMIC}; ${CURES}`,
  );
}

const NOT_CARRIED = 'expected a tensor of a type that ONNX Runtime for Node carries';
const EXPORT_TENSORS = 'export the model with float, integer, bool or string tensors';

function readInput(value: ValueDescription): TensorSpec {
  const spec = readTensor(value);
  if (spec !== undefined) return spec;
  throw new Error(`input '${value.name}': ${NOT_CARRIED}, got ${kindOf(value)}; ${EXPORT_TENSORS}`);
}

/** Returns undefined if the value is no tensor, or of an unsupported type. */
function readTensor({ name, onnxType, shape }: ValueDescription): TensorSpec | undefined {
  const datatype = onnxType === undefined ? undefined : datatypeOfOnnxType(onnxType);
  if (datatype === undefined || shape === undefined) return undefined;
  return { name, datatype, shape: shape.map((dim, axis) => nameUnknown(dim, name, axis)) };
}

function kindOf({ onnxType }: ValueDescription): string {
  return onnxType ?? 'a sequence, a map or an optional';
}

/** Matches the names that exporters give to unnamed axes. */
const NO_NAME = /^(\?|-1|None)?$/;

/** Returns a unique name for an unnamed axis, because it need not equal any other axis. */
function nameUnknown(dim: number | string, tensor: string, axis: number): number | string {
  const unknown = typeof dim === 'string' ? NO_NAME.test(dim) : dim < 0;
  return unknown ? `${tensor} axis ${axis}` : dim;
}

function chosenOf(
  outputs: readonly ValueDescription[],
  names: readonly string[] = outputs.map(({ name }) => name),
): readonly ValueDescription[] {
  refuseOtherNames('outputs', names, outputs);
  return names.flatMap((name) => outputs.find((output) => output.name === name) ?? []);
}

/** Moves the rows of a spec first. The shape of an output may be unknown; it is then empty like a scalar's. */
function withBatchAxis(spec: TensorSpec, declared: Readonly<Record<string, number>>): TensorSpec {
  const { name, shape } = spec;
  const batchAxis = Object.hasOwn(declared, name) ? (declared[name] as number) : 0;
  if (batchAxis === 0) return spec;
  if (shape.length === 0) return { ...spec, batchAxis };
  if (batchAxis < shape.length) return { ...spec, shape: moveDim(shape, batchAxis, 0), batchAxis };
  throw new Error(
    `batchAxis.${name}: expected an axis of [${shape.join(', ')}], 0 to ${shape.length - 1}, got ${batchAxis}`,
  );
}

const NAMED_BY = {
  outputs: "the model's outputs",
  constants: "the model's inputs",
  batchAxis: 'the inputs and outputs that have a batch axis',
};

function refuseOtherNames(
  key: keyof typeof NAMED_BY,
  got: readonly string[],
  known: readonly Pick<TensorSpec, 'name'>[],
): void {
  const other = got.find((name) => !known.some((one) => one.name === name));
  if (other === undefined) return;
  throw new Error(
    `${key}: expected names of ${NAMED_BY[key]} (${listNames(known)}), got '${other}'; correct or remove it`,
  );
}

interface FoundAxes {
  readonly problems: readonly string[];
  /** Declared batch axes, and those that the names and sizes of axes suggest. */
  readonly batchAxis: Readonly<Record<string, number>>;
  /** Inputs without a possible batch axis. */
  readonly weights: readonly TensorSpec[];
}

function findAxes(
  inputs: readonly TensorSpec[],
  outputs: readonly TensorSpec[],
  declared: Readonly<Record<string, number>>,
): FoundAxes {
  const all = [...inputs, ...outputs];
  const asDeclared = inputs.map((spec) => withBatchAxis(spec, declared));
  const misplaced = findMisplaced(asDeclared, declared);
  const namesSuggest = axesNamed(batchName(asDeclared, all), all);
  const isNew = Object.keys(namesSuggest).some((name) => !Object.hasOwn(declared, name));
  const suggested = isNew ? namesSuggest : misplaced?.pair;
  const batchAxis = misplaced === undefined ? declared : { ...suggested, ...declared };
  const problems = misplaced === undefined ? [] : [misplaced.problem];
  const disagreed = disagreement(
    inputs.map((spec) => withBatchAxis(spec, batchAxis)),
    outputs.map((spec) => withBatchAxis(spec, batchAxis)),
  );
  if (disagreed === undefined) return { problems, batchAxis, weights: [] };
  const { rows, odd, problem } = disagreed;
  const open = [...odd, ...outputs.filter(({ shape }) => shape[0] !== rows)];
  const sizesSuggest = axesNamed(
    rows,
    open.filter(({ name }) => !Object.hasOwn(batchAxis, name)),
  );
  return {
    problems: [...problems, problem],
    batchAxis: { ...sizesSuggest, ...batchAxis },
    weights: odd.filter(({ name }) => !Object.hasOwn(sizesSuggest, name)),
  };
}

/** Returns the name of a first axis that most tensors have. In a tie, a name that looks like a batch wins. */
function batchName(inputs: readonly TensorSpec[], all: readonly TensorSpec[]): string | undefined {
  const names = inputs.flatMap(({ shape: [first] }) => (typeof first === 'string' ? [first] : []));
  const spread = (name: string): number => all.filter(({ shape }) => shape.includes(name)).length;
  const looks = (name: string): number => Number(/batch|^[bn]$/i.test(name));
  return names.toSorted((a, b) => spread(b) - spread(a) || looks(b) - looks(a))[0];
}

/** Returns the axis of that name or size by tensor, if it is unique in the tensor and not the first. */
function axesNamed(dim: string | number | undefined, specs: readonly TensorSpec[]): Record<string, number> {
  const found = specs.flatMap(({ name, shape }): [string, number][] => {
    const axis = dim === undefined ? -1 : shape.indexOf(dim);
    return axis > 0 && axis === shape.lastIndexOf(shape[axis] as number | string) ? [[name, axis]] : [];
  });
  return Object.fromEntries(found);
}

/**
 * Finds an input whose batch axis has the name of another input's other axis. Axes of one name have one size, so one of
 * the two axes is not the batch, unless config.json declares both. A name that is on both axes of both inputs proves
 * nothing: some exporters give all axes one name.
 *
 * @param inputs with their rows first
 */
function findMisplaced(
  inputs: readonly TensorSpec[],
  declared: Readonly<Record<string, number>>,
): { readonly problem: string; readonly pair: Readonly<Record<string, number>> } | undefined {
  const isDeclared = ({ name }: TensorSpec): boolean => Object.hasOwn(declared, name);
  const isTwice = ({ shape }: TensorSpec): boolean => shape.includes(shape[0] as number | string, 1);
  for (const one of inputs) {
    const name = one.shape[0] as number | string;
    const other = inputs.find(
      (another) =>
        another !== one &&
        another.shape.includes(name, 1) &&
        !(another.shape[0] === name && isTwice(one)) &&
        !(isDeclared(one) && isDeclared(another)),
    );
    if (typeof name === 'number' || other === undefined) continue;
    const [batchAxis, axis] = [axisInModel(one, 0), axisInModel(other, other.shape.indexOf(name, 1))];
    return {
      pair: { [one.name]: batchAxis, [other.name]: axis },
      problem:
        `inputs '${one.name}' and '${other.name}': expected the same batch axis in both, got '${name}' on axis ${batchAxis} of ` +
        `'${one.name}' and on axis ${axis} of '${other.name}', so that axis ${axisInModel(other, 0)} of '${other.name}' ` +
        'is not the batch; if one of them has none, give it as "constants"; if a request is a graph of many nodes, export ' +
        'the model with an axis of 1 before all others',
    };
  }
  return undefined;
}

interface BakedRows {
  /** The only number of rows, if the batch axis is baked. Undefined if it is dynamic. */
  readonly bakedRows: number | undefined;
  /** Inputs that bake it, if others leave it dynamic. */
  readonly bakedBy: readonly TensorSpec[];
}

/** Advice for an input without the batch axis of the others. */
export const CURES =
  'where one is a weight that is the same for all requests, give its value as "constants" in config.json; where it is a ' +
  'state with its batch on another axis, name that axis as "batchAxis"';

/**
 * Returns the only number of rows that the model takes, if its batch axis is fixed, and the inputs that fix it.
 *
 * @param inputs that agree
 */
function readBakedRows(inputs: readonly TensorSpec[]): BakedRows {
  const baked = bakedOf(inputs);
  const rows = baked[0]?.shape[0];
  return typeof rows === 'number'
    ? { bakedRows: rows, bakedBy: baked.length < inputs.length ? baked : [] }
    : { bakedRows: undefined, bakedBy: [] };
}

function bakedOf(inputs: readonly TensorSpec[]): TensorSpec[] {
  return inputs.filter(({ shape }) => typeof shape[0] === 'number');
}

/**
 * Finds inputs that bake different numbers of rows. Returns the likely number and the inputs with another one. The
 * likely number is that of most outputs, and in a tie the one that most inputs have on any axis.
 *
 * @param outputs with their rows first, like the inputs
 */
function disagreement(
  inputs: readonly TensorSpec[],
  outputs: readonly TensorSpec[],
): { readonly rows: number; readonly odd: readonly TensorSpec[]; readonly problem: string } | undefined {
  const baked = bakedOf(inputs);
  const oddOf = (rows: number): TensorSpec[] => baked.filter(({ shape }) => shape[0] !== rows);
  const sizes = [...new Set(baked.map(({ shape }) => shape[0] as number))];
  const isOn = (rows: number, specs: readonly TensorSpec[]): number =>
    specs.filter(({ shape }) => shape[0] === rows).length;
  const isIn = (rows: number): number => baked.filter(({ shape }) => shape.includes(rows)).length;
  const [rows] = sizes.toSorted((a, b) => isOn(b, outputs) - isOn(a, outputs) || isIn(b) - isIn(a));
  if (rows === undefined || sizes.length === 1) return undefined;
  const odd = oddOf(rows);
  const [first] = odd as [TensorSpec];
  const one = baked.find(({ shape }) => shape[0] === rows) as TensorSpec;
  return {
    rows,
    odd,
    problem:
      `inputs '${one.name}' and '${first.name}': expected the same size on the batch axis, got ${rows} on axis ` +
      `${axisInModel(one, 0)} and ${first.shape[0]} on axis ${axisInModel(first, 0)}; export the model with a dynamic ` +
      `batch axis; ${CURES}`,
  };
}

/**
 * Decodes the inputs in config.json, checked like those of requests.
 *
 * @param specs of these inputs in the model
 * @throws Error naming `constants.<name>` and the problem
 */
export function readConstants(config: Readonly<Record<string, unknown>>, specs: readonly TensorSpec[]): Tensor[] {
  return specs.map((spec) => {
    const { name, datatype } = spec;
    const value = config[name];
    const path = `constants.${name}`;
    const shape = shapeOf(value, spec, path);
    const isScalar = !Array.isArray(value);
    const data = decodeData(isScalar ? [value] : value, datatype, shape, isScalar ? () => path : pathWithin(path));
    if (isFailure(data)) throw new Error(data.message);
    return { name, datatype, shape, data };
  });
}

/** Returns the model's shape. Symbolic axes have the sizes of the value. */
function shapeOf(value: unknown, { shape }: TensorSpec, path: string): number[] {
  const refuse = (got: string): Error =>
    new Error(`${path}: expected an array for [${shape.join(', ')}], got ${got}; nest it as that shape says`);
  if (!Array.isArray(value)) return shape.map((dim) => (typeof dim === 'number' ? dim : 1));
  if (shape.length > 1 && Array.isArray(value[0])) {
    const nesting = nestingOf(value, shape.length);
    if (
      nesting.length === shape.length &&
      shape.every((dim, axis) => typeof dim === 'string' || dim === nesting[axis])
    ) {
      return nesting;
    }
    throw refuse(`one of the sizes [${nesting.join(', ')}]`);
  }
  const open = shape.filter((dim) => typeof dim === 'string').length;
  if (open > 1) throw refuse('a flat one, which may have several shapes');
  const rest = value.length / elementCount(shape.map((dim) => (typeof dim === 'number' ? dim : 1)));
  if (open === 1 && !Number.isInteger(rest)) throw refuse(plural(value.length, 'element'));
  return shape.map((dim) => (typeof dim === 'number' ? dim : rest));
}

/**
 * Reads the ragged axis in config.json in the model's terms.
 *
 * @throws Error naming what contradicts the model
 */
export function readRagged(
  config: RaggedConfig,
  { inputs, outputs }: Pick<ModelContract, 'inputs' | 'outputs'>,
): RaggedAxis {
  const { axis, pad, cut = {}, allowedSizes = [] } = config;
  const raggedInputs = inputs.filter(({ shape }) => axesCalled(axis, shape).length > 0);
  if (raggedInputs.length === 0) {
    throw new Error(`ragged.axis: expected a symbolic axis of the inputs (${listSymbolicAxes(inputs)}), got '${axis}'`);
  }
  refuseStrayNames('ragged.pad', Object.keys(pad), raggedInputs);
  refuseStrayNames('ragged.cut', Object.keys(cut), outputs, 'some of');
  return {
    name: axis,
    inputs: inputs.map((spec) => readRaggedInput(spec, axis, pad[spec.name])),
    outputs: outputs.map((spec) => readRaggedOutput(spec, axis, cut[spec.name])),
    allowedSizes: allowedSizes.toSorted((a, b) => a - b),
  };
}

function axesCalled(name: string, shape: TensorSpec['shape']): number[] {
  return shape.flatMap((dim, axis) => (axis > 0 && dim === name ? [axis] : []));
}

function listSymbolicAxes(specs: readonly TensorSpec[]): string {
  const names = specs.flatMap(({ shape }) => shape.slice(1)).filter((dim) => typeof dim === 'string');
  return [...new Set(names)].join(', ') || 'it has none';
}

function refuseStrayNames(key: string, got: readonly string[], specs: readonly TensorSpec[], some = 'each of'): void {
  const known = specs.map(({ name }) => name);
  const missing = some === 'each of' ? known.filter((name) => !got.includes(name)) : [];
  if (missing.length === 0 && got.every((name) => known.includes(name))) return;
  throw new Error(`${key}: expected ${some} ${known.join(', ')}, got ${got.join(', ') || 'none'}`);
}

function readRaggedInput(spec: TensorSpec, axisName: string, pad: unknown): RaggedAxis['inputs'][number] {
  const { name, datatype, shape } = spec;
  const [axis, second] = axesCalled(axisName, shape);
  if (axis === undefined) return undefined;
  if (second !== undefined) {
    throw new Error(`ragged.axis: expected '${axisName}' once in input '${name}', got ${show(spec)}`);
  }
  const decoded = decodeData([pad], datatype, [1], () => `ragged.pad.${name}`);
  if (isFailure(decoded)) throw new Error(decoded.message);
  return { axis, pad: decoded[0] as number | bigint | string };
}

/** @param declared axis to cut back, in the model's order */
function readRaggedOutput(spec: TensorSpec, axisName: string, declared: number | undefined): number | undefined {
  const { name, shape, batchAxis = 0 } = spec;
  const [axis, second] = axesCalled(axisName, shape);
  if (declared !== undefined) {
    const cutAxis = axisRowsFirst(spec, declared);
    // The shape of an output may be unknown until the first run.
    if (cutAxis > 0 && (shape.length === 0 || typeof shape[cutAxis] === 'string')) return cutAxis;
    throw new Error(
      `ragged.cut.${name}: expected a symbolic axis of ${show(spec)} other than the batch axis ${batchAxis}, got ${declared}`,
    );
  }
  if (second !== undefined) {
    throw new Error(`ragged.axis: expected '${axisName}' once in output '${name}', got ${show(spec)}`);
  }
  return axis;
}

function show(spec: TensorSpec): string {
  return `[${shapeInModel(spec, spec.shape).join(', ')}]`;
}

export type AxisSizes = Readonly<Record<string, number>>;

type Inputs = Pick<Model, 'inputs'>;

export function elementsAt(model: Inputs, rows: number, sizes: AxisSizes): number {
  return shapesAt(model, rows, sizes, 1).reduce((sum, shape) => sum + elementCount(shape), 0);
}

/**
 * Returns the shape of each input. A symbolic axis has its size in `sizes`, or the sum that its name spells, such as
 * `past + 1`, or `size`.
 */
export function shapesAt(model: Inputs, rows: number, sizes: AxisSizes, size: number): number[][] {
  const axes = symbolicAxes(model);
  const sizeOf = (dim: number | string): number => {
    if (typeof dim === 'number') return dim;
    const given = Object.hasOwn(sizes, dim) ? sizes[dim] : undefined;
    return given ?? termsOf(dim, axes)?.reduce<number>((sum, term) => sum + sizeOf(term), 0) ?? size;
  };
  return model.inputs.map(({ shape }) => [rows, ...shape.slice(1).map(sizeOf)]);
}

/** Splits an axis name that is a sum into numbers and names of other axes. Returns undefined for other names. */
function termsOf(name: string, axes: readonly string[]): (number | string)[] | undefined {
  const terms = name.split('+').map((term) => term.trim());
  if (terms.length < 2 || !terms.every((term) => /^\d+$/.test(term) || axes.includes(term))) return undefined;
  return terms.map((term) => (axes.includes(term) ? term : Number(term)));
}

/** Yields sizes to try: one size for all open axes, and then the same with an empty past. */
export function* sizesToTry(model: Inputs, given: AxisSizes, sizes: readonly number[]): Generator<AxisSizes> {
  const open = freeAxes(model).filter((name) => given[name] === undefined);
  const past = emptyPast(model);
  for (const size of open.length === 0 ? [1] : sizes) {
    const ofOneSize = Object.fromEntries(open.map((name) => [name, size]));
    yield { ...ofOneSize, ...given };
    if (past !== undefined) yield { ...ofOneSize, ...past, ...given };
  }
}

function freeAxes(model: Inputs): string[] {
  const axes = symbolicAxes(model);
  return axes.filter((name) => termsOf(name, axes) === undefined);
}

/**
 * Returns size 0 for the axes of a decoder's past, or undefined if it has none. The keys and values of the past are
 * empty at first. Otherwise the mask is longer than the input.
 */
export function emptyPast(model: Inputs): AxisSizes | undefined {
  const past = freeAxes(model).filter((name) => /past/i.test(name));
  return past.length === 0 ? undefined : Object.fromEntries(past.map((name) => [name, 0]));
}

/** Returns the axes other than the batch axis whose sizes requests choose. */
export function symbolicAxes({ inputs }: Inputs): string[] {
  const names = inputs.flatMap(({ shape }) => shape.slice(1)).filter((dim) => typeof dim === 'string');
  return [...new Set(names)];
}
