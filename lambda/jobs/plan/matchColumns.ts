import { preview } from '../../core/failure.ts';
import { type InputColumns, JobError, type Spec } from '../../core/job/words.ts';
import { type Model, shapeInModel, type TensorSpec } from '../../core/model.ts';

/**
 * Says which columns make up each input of the model: those that were asked for, else the column of its name.
 *
 * @param columns that there are
 * @throws JobError naming everything that does not fit
 */
export function matchColumns(model: Model, columns: readonly string[], spec: Spec): readonly InputColumns[] {
  if (model.transform?.decode !== undefined) {
    throw new JobError(
      'INVALID_JOB',
      `model '${model.name}': expected one without a transform, which takes requests of its own; use JSONL`,
    );
  }
  const problems: string[] = [];
  const known = new Set(columns);
  if (known.size < columns.length) problems.push('columns: expected each name once, got one of them twice; rename it');
  for (const name of Object.keys(spec.inputs ?? {})) {
    if (model.inputs.some((input) => input.name === name)) continue;
    const names = model.inputs.map((input) => input.name).join(', ');
    problems.push(`inputs: expected inputs of the model (${names}), got ${preview(name)}`);
  }
  const missing = (wanted: readonly string[]) => wanted.filter((column) => !known.has(column));
  const given = new Map(Object.entries(spec.inputs ?? {}));
  const inputs = model.inputs.map((input) => {
    const wanted = given.get(input.name) ?? [input.name];
    problems.push(...problemsOf(input, wanted, missing(wanted)));
    const shape = shapeInModel(input, rowShape(input, wanted.length));
    return { input: input.name, datatype: input.datatype, shape, columns: wanted };
  });
  const lost = missing(spec.keep ?? []);
  if (lost.length > 0) problems.push(`keep: expected columns that there are, got ${list(lost)}`);
  if (problems.length > 0) throw new JobError('INVALID_JOB', problems.join('; '));
  return inputs;
}

function problemsOf({ name, shape }: TensorSpec, columns: readonly string[], missing: readonly string[]): string[] {
  const cure = `say which columns it has, such as --inputs ${name}=p0..p63 or ${name}=a,b`;
  if (missing.length > 0)
    return [`input '${name}': expected the columns ${list(columns)}, got none called ${list(missing)}; ${cure}`];
  const rest = shape.slice(1);
  const open = rest.filter((size) => typeof size === 'string').length;
  const elements = rest.reduce<number>((product, size) => product * (typeof size === 'string' ? 1 : size), 1);
  const fits = open === 0 ? columns.length === elements : open === 1 && columns.length % elements === 0;
  if (fits) return [];
  return [
    `input '${name}': expected columns for a row of the shape [${rest.join(', ')}], got ${columns.length}; ${cure}`,
  ];
}

const MOST_LISTED = 4;

function list(names: readonly string[]): string {
  const some = names.slice(0, MOST_LISTED).map(preview).join(', ');
  return names.length > MOST_LISTED ? `${some}, … (${names.length})` : some;
}

/** The shape of one row of an input: a size that the model leaves open is what the columns come to. */
function rowShape({ shape }: TensorSpec, columns: number): number[] {
  const known = shape.slice(1).reduce<number>((product, size) => product * (typeof size === 'string' ? 1 : size), 1);
  return [1, ...shape.slice(1).map((size) => (typeof size === 'string' ? columns / known : size))];
}
