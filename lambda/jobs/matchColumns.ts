import { isFailure, preview } from '../core/failure.ts';
import type { JsonObject } from '../core/json.ts';
import { type ModelDescription, type TensorSpec, takesOwnForm } from '../core/model.ts';
import { notAmong, notFound } from '../core/wrongValue.ts';
import { JobError } from './jobFiles.ts';
import type { InputColumns, Spec } from './jobTypes.ts';
import { inputColumnsOf } from './rowRequests.ts';

type InputSpec = Pick<Spec, 'inputs' | 'keep' | 'separator'>;

/** Returns the keys of each model input in plain objects, like {@link matchColumns}. @param first object of the file */
export function matchKeys(model: ModelDescription, first: JsonObject | undefined, spec: InputSpec) {
  return matchColumns(model, first && Object.keys(first), { ...spec, separator: ',' }, 'keys of the first line');
}

/**
 * Returns the columns of each model input: those that the spec names, or the column of the input's name.
 *
 * @param columns of the file. Undefined if they are unknown
 * @throws JobError naming everything that does not fit
 */
export function matchColumns(
  model: ModelDescription,
  columns: readonly string[] | undefined,
  spec: InputSpec,
  are = 'columns of the file',
): readonly InputColumns[] {
  if (takesOwnForm(model)) {
    throw new JobError(
      'INVALID_JOB',
      `model '${model.name}': expected one without a transform or tokenizer, which takes requests of its own; use JSONL`,
    );
  }
  const problems: string[] = [];
  const known = columns ?? [];
  const names = new Set(known);
  if (names.size < known.length) problems.push('columns: expected each name once, got one of them twice; rename it');
  for (const name of Object.keys(spec.inputs ?? {})) {
    if (model.inputs.some((input) => input.name === name)) continue;
    problems.push(
      `inputs: expected inputs of the model (${model.inputs.map((input) => input.name).join(', ')}), got ${preview(name)}`,
    );
  }
  const missing = (wanted: readonly string[]) => wanted.filter((name) => columns !== undefined && !names.has(name));
  const given = new Map(Object.entries(spec.inputs ?? {}));
  const inputs = model.inputs.map((input) => {
    const wanted = given.get(input.name) ?? [columnOf(input.name, known, model.inputs)];
    const { name, datatype } = input;
    const found = inputColumnsOf(input, wanted);
    if (!isFailure(found)) return found;
    if (missing(wanted).length === 0) {
      const cure = `set its columns: --inputs ${name}=COLUMN,COLUMN or ${name}=FIRST..LAST`;
      const row = input.shape.slice(1).join(', ');
      problems.push(`input '${name}': expected columns for a row of the shape [${row}], got ${wanted.length}; ${cure}`);
    }
    return { input: name, datatype, shape: [], columns: wanted };
  });
  const lacking = inputs.filter((input) => missing(input.columns).length > 0).map(({ input }) => input);
  const hint = headerHint(known, spec, missing(inputs.flatMap((input) => input.columns)));
  const [name] = lacking;
  const [what, theirs] = lacking.length === 1 ? [`input '${name}'`, 'its columns'] : ['inputs', 'the columns of each'];
  const cure = `; set ${theirs}: --inputs ${name}=COLUMN,COLUMN or ${name}=FIRST..LAST`;
  const lost = missing(inputs.flatMap((input) => input.columns));
  if (lost.length > 0) problems.push(`${what}: ${notFound(lost, are, known)}${hint ?? cure}`);
  const unkept = missing(spec.keep ?? []);
  if (unkept.length > 0) problems.push(`keep: ${notAmong(are, known, unkept)}${hint ?? ''}`);
  if (problems.length > 0) throw new JobError('INVALID_JOB', problems.join('; '));
  return inputs;
}

/**
 * Returns the column or key of an input that is not told: the one of its name, or the one that an exporter renames to it.
 * In the names of inputs skl2onnx has `_` for whatever is no letter, digit, `_` or `+`.
 *
 * @param there columns or keys of the file
 * @throws JobError if several columns may be the input: a copy of a column would be taken for it
 */
function columnOf(input: string, there: readonly string[], inputs: readonly TensorSpec[]): string {
  const isOfAnother = (column: string): boolean => column !== input && inputs.some((spec) => spec.name === column);
  const alike = [...new Set(there)].filter((column) => isNamed(column, input) && !isOfAnother(column));
  if (alike.length < 2) return alike[0] ?? input;
  throw new JobError(
    'INVALID_JOB',
    `input '${input}': expected one column of its name, got ${alike.map((column) => preview(column)).join(', ')}, which ` +
      `exporters give the same name; set the one that the model was trained on: --inputs '${input}=COLUMN'`,
  );
}

/** Returns true if an input may have the name of a column, as it is or as exporters change it. */
function isNamed(column: string, input: string): boolean {
  const [plain, name] = [column.normalize(), input.normalize()];
  return plain === name || plain.replaceAll(/[^\p{L}\p{N}_+]/gu, '_') === name;
}

function headerHint(columns: readonly string[], { separator }: Spec, lost: readonly string[]): string | undefined {
  if (/^sep=/i.test(columns[0] ?? '')) return '; remove the first line: it is for spreadsheets alone';
  const padded = columns.filter((one) => one !== one.trim());
  if (lost.some((name) => padded.some((one) => isNamed(one.trim(), name))))
    return '; remove the blanks around the names';
  const found = [';', '\t', '|'].find((one) => columns.some((name) => name.includes(one)));
  if (found === undefined || separator !== undefined) return undefined;
  return `; if ${found === '\t' ? 'a tab' : found} separates the columns, add --separator '${found === '\t' ? 'tab' : found}'`;
}
