import { axisInModel, axisRowsFirst, shapeInModel, type TensorSpec } from '../core/model.ts';
import { allocate, DATATYPES, elementCount, type Tensor } from '../core/tensor.ts';

import {
  type AxisSizes,
  type ContractSettings,
  elementsAt,
  findGaps,
  type ModelContract,
  readConstants,
  readContract,
  shapesAt,
  sizesToTry,
} from './contract.ts';
import type { ModelConfig, RaggedConfig } from './modelConfig.ts';
import type { Session } from './session.ts';
import type { TaskInput } from './sessionJobs.ts';

type Settings = ContractSettings & Pick<ModelConfig, 'ragged'>;

/**
 * Everything that a refused model's config.json lacks, in words and as one block of JSON to paste: what the names and
 * sizes of its tensors show, and what runs on made-up values do. Undefined where neither shows anything, or what is there
 * does not agree with the model: then the refusal itself says what is wrong.
 *
 * @param mayRun false for a model that made-up values might keep running for ever
 */
export async function missingSettings(
  session: Session,
  config: ModelConfig,
  mayRun: boolean,
): Promise<string | undefined> {
  try {
    const gaps = findGaps(session.metadata, config);
    const contract = readContract(session.metadata, gaps.settings);
    const found = mayRun ? await findInRuns(session, contract, gaps.settings, config) : undefined;
    const problems = [...gaps.problems, ...(found?.problems ?? [])];
    if (problems.length === 0) return undefined;
    const settings = { ragged: config.ragged, ...gaps.settings, ...found?.settings };
    if (settings.outputs?.length === 0) {
      return `${problems.join('; ')}; no output has rows; export the model so that those to be served keep the batch axis`;
    }
    return `${problems.join('; ')}; ${asBlock(settings, config)}`;
  } catch {
    // The refusal that brought it here is thrown in place of this.
    return undefined;
  }
}

/** A value that is longer is not repeated. */
const MAX_OF_A_CONSTANT = 80;

/** The keys that change, each whole, with null for what nobody but the model's owner knows. */
function asBlock(settings: Settings, config: Settings): string {
  const changed = (['outputs', 'batchAxis', 'constants', 'ragged'] as const).filter(
    (key) => JSON.stringify(settings[key]) !== JSON.stringify(config[key]),
  );
  const block: Settings = Object.fromEntries(changed.map((key) => [key, settings[key]]));
  const spelled = Object.entries(block.constants ?? {}).map(([name, value]): [string, unknown] => {
    return [name, JSON.stringify(value).length <= MAX_OF_A_CONSTANT ? value : null];
  });
  const unknown = spelled.filter(([, value]) => value === null).map(([name]) => `'${name}'`);
  const toFill = unknown.length === 0 ? '' : `, with the values of ${unknown.join(', ')} in place of null`;
  const text = JSON.stringify(spelled.length === 0 ? block : { ...block, constants: Object.fromEntries(spelled) });
  return `put into config.json${toFill}: ${text}`;
}

/** What the outputs of runs were like, laid out as the model has them. */
interface Seen {
  readonly rows: number;
  readonly length: number | undefined;
  readonly shapes: readonly (readonly number[])[];
}

interface FoundInRuns {
  readonly problems: readonly string[];
  readonly settings: Settings;
}

/** What the outputs of runs at two numbers of rows, and at two lengths of a ragged axis, need. */
async function findInRuns(
  session: Session,
  contract: ModelContract,
  settings: ContractSettings,
  { ragged, warmup }: ModelConfig,
): Promise<FoundInRuns | undefined> {
  const sizes = typeof warmup === 'object' ? warmup : {};
  const seen = await seeRuns(session, contract, settings.constants ?? {}, ragged, sizes);
  if (seen === undefined) return undefined;
  const problems: string[] = [];
  const kept: string[] = [];
  const batchAxis: Record<string, number> = {};
  const cut: Record<string, number> = {};
  for (const [index, spec] of contract.outputs.entries()) {
    const { name } = spec;
    const axis = axisInModel(spec, 0);
    const axes = axesThatFollow(seen, index, ({ rows }) => rows);
    const rowsOn = axes.includes(axis) ? axis : axes[0];
    if (axes.includes(axis) || axes.length === 1) kept.push(name);
    if (rowsOn !== axis) {
      const [{ rows, shapes }] = seen as [Seen];
      const got = `[${shapes[index]?.join(', ')}]`;
      problems.push(`output '${name}': expected axis ${axis} to be the batch axis, ${rows} rows, got shape ${got}`);
      if (axes.length === 1) batchAxis[name] = rowsOn as number;
    }
    if (ragged === undefined || rowsOn === undefined || isCut({ ...spec, batchAxis: rowsOn }, ragged)) continue;
    const [cutAxis, second] = axesThatFollow(seen, index, ({ length }) => length).filter((one) => one !== rowsOn);
    if (cutAxis === undefined || second !== undefined) continue;
    problems.push(`output '${name}': axis ${cutAxis} keeps the padded length of '${ragged.axis}'`);
    cut[name] = cutAxis;
  }
  const dropped = contract.outputs.filter(({ name }) => !kept.includes(name));
  const axes = Object.entries({ ...settings.batchAxis, ...batchAxis }).filter(
    ([name]) => !dropped.some((one) => one.name === name),
  );
  return {
    problems,
    settings: {
      ...(dropped.length > 0 && { outputs: kept }),
      ...(axes.length > 0 && { batchAxis: Object.fromEntries(axes) }),
      ...(ragged !== undefined &&
        Object.keys(cut).length > 0 && { ragged: { ...ragged, cut: { ...ragged.cut, ...cut } } }),
    },
  };
}

/** The axes of an output whose size is what `of` says in every run. */
function axesThatFollow(seen: readonly Seen[], index: number, of: (run: Seen) => number | undefined): number[] {
  const [first = []] = seen.map(({ shapes }) => shapes[index] ?? []);
  return [...first.keys()].filter((axis) => seen.every((run) => run.shapes[index]?.[axis] === of(run)));
}

/** Whether an output is cut back along the ragged axis by what its name or config.json says. */
function isCut(spec: TensorSpec, { axis, cut = {} }: RaggedConfig): boolean {
  return Object.hasOwn(cut, spec.name) || spec.shape.some((dim, at) => dim === axis && axisRowsFirst(spec, at) > 0);
}

const ROWS = [2, 3] as const;
/** Of open axes; others than the numbers of rows. */
const SIZES = [4, 1, 32, 128];
/** Of made-up values: what divides by one of them, or looks it up, may run with the other. */
const VALUES = [1, 0];
/** Of inputs: several open axes of the larger sizes together are more than fits into memory. */
const MAX_ELEMENTS = 4_194_304;
/** A run that takes longer is taken for one that never ends. */
const RUN_LIMIT_MS = 10_000;

/** The first made-up runs that the model does; undefined where it does none. */
async function seeRuns(
  session: Session,
  contract: ModelContract,
  constants: Readonly<Record<string, unknown>>,
  ragged: RaggedConfig | undefined,
  given: AxisSizes,
): Promise<Seen[] | undefined> {
  const { bakedRows } = contract;
  const [few, many] = bakedRows === undefined ? ROWS : [bakedRows, bakedRows];
  for (const some of sizesToTry(contract, given, SIZES)) {
    const allowedSizes = (ragged?.allowedSizes ?? []).toSorted((a, b) => a - b);
    const [length = some[ragged?.axis ?? ''] ?? 1, longer = 2 * length] = allowedSizes;
    for (const value of VALUES) {
      const see = async (rows: number, size: number): Promise<Seen | undefined> => {
        const sizes = ragged === undefined ? some : { ...some, [ragged.axis]: size };
        const shapes = await shapesOf(session, contract, constants, rows, sizes, value);
        return shapes && { rows, length: ragged && size, shapes };
      };
      const first = await see(few, length);
      if (first === undefined) continue;
      const more = await see(many, longer);
      return more === undefined ? [first] : [first, more];
    }
  }
  return undefined;
}

/** The shapes of outputs, or undefined where such a run fails. */
async function shapesOf(
  session: Session,
  contract: ModelContract,
  constants: Readonly<Record<string, unknown>>,
  rows: number,
  sizes: AxisSizes,
  value: number,
): Promise<Seen['shapes'] | undefined> {
  if (elementsAt(contract, rows, sizes) > MAX_ELEMENTS) return undefined;
  const shapes = shapesAt(contract, rows, sizes, 1);
  const inputs = contract.inputs.map((spec, index) =>
    filled(spec, shapeInModel(spec, shapes[index] as number[]), value),
  );
  const fixed = contract.constants.map((spec) => {
    const known = constants[spec.name];
    if (known !== null) return toTask(readConstants({ [spec.name]: known }, [spec])[0] as Tensor);
    return filled(
      spec,
      spec.shape.map((dim) => (typeof dim === 'number' ? dim : 1)),
      1,
    );
  });
  const outputs = contract.outputs.map(({ name }) => name);
  try {
    const reply = await session.run({ inputs, constants: fixed, outputs }, AbortSignal.timeout(RUN_LIMIT_MS));
    return reply.outputs.map(({ shape }) => shape);
  } catch {
    return undefined;
  }
}

function filled({ name, datatype }: TensorSpec, shape: readonly number[], value: number): TaskInput {
  const data = allocate(datatype, elementCount(shape));
  const { kind } = DATATYPES[datatype];
  (data as unknown[]).fill(kind === 'string' ? String(value) : kind === 'bigint' ? BigInt(value) : value);
  return toTask({ name, datatype, shape, data });
}

function toTask({ name, datatype, shape, data }: Tensor): TaskInput {
  return { name, onnxType: DATATYPES[datatype].onnxType, shape, data };
}
