import { type Failure, failure, preview } from '../../lambda/core/failure.ts';

import { isObject, type JsonObject, parseIfJson } from '../../lambda/core/json.ts';
import { type Model, shapeInModel, type TensorSpec } from '../../lambda/core/model.ts';

import type { Spec } from '../../lambda/jobs/jobTypes.ts';
import type { LineReader } from '../../lambda/jobs/textRows.ts';

type Columns = Pick<Spec, 'inputs' | 'keep'>;

interface InputKeys {
  readonly spec: TensorSpec;
  readonly keys: readonly string[];
}

/**
 * Reads a line with a plain object as a request of one row: each input is the value of its name, a number, a text or
 * an array, flat or nested; or the values of several keys.
 *
 * @param first of the objects; undefined where there is none yet
 * @throws Error where it does not have the keys, and so the others will not either
 */
export function requestOfObject(first: JsonObject | undefined, model: Model, columns: Columns): LineReader {
  const inputs = keysOfInputs(model, columns);
  const keep = columns.keep ?? [];
  if (first !== undefined) refuseMissing(first, inputs, keep);
  return (line) => {
    const row = parseIfJson(line);
    if (!isObject(row)) return { text: '', failed: noObject(line, row) };
    try {
      return rowOf(row, inputs, keep);
    } catch {
      // The one thing that cannot be written as JSON after it was read from it.
      return { text: '', failed: failure('INVALID_REQUEST', 'line: expected a few nested levels, got thousands') };
    }
  };
}

function rowOf(row: JsonObject, inputs: readonly InputKeys[], keep: readonly string[]): ReturnType<LineReader> {
  const entries: string[] = [];
  for (const input of inputs) {
    const entry = entryOf(row, input);
    if (typeof entry !== 'string') return { text: '', failed: entry };
    entries.push(entry);
  }
  const text = `{"inputs":[${entries.join(',')}]}`;
  if (keep.length === 0) return { text };
  const kept = keep.map((key) => `${JSON.stringify(key)}:${JSON.stringify(valueOfKey(row, key) ?? null)}`);
  return { text, kept: `{${kept.join(',')}}` };
}

function keysOfInputs({ inputs }: Model, { inputs: given = {} }: Columns): InputKeys[] {
  const other = Object.keys(given).find((name) => !inputs.some((spec) => spec.name === name));
  if (other !== undefined) {
    const names = inputs.map(({ name }) => name).join(', ');
    throw new Error(`--inputs: expected inputs of the model (${names}), got ${preview(other)}`);
  }
  // An input may be called as a member of every object, such as constructor.
  const keysOf = new Map(Object.entries(given));
  return inputs.map((spec) => ({ spec, keys: keysOf.get(spec.name) ?? [spec.name] }));
}

function refuseMissing(first: JsonObject, inputs: readonly InputKeys[], keep: readonly string[]): void {
  for (const { spec, keys } of inputs) {
    const missing = keys.find((key) => !Object.hasOwn(first, key));
    if (missing === undefined) continue;
    throw new Error(
      `input '${spec.name}': expected the key ${preview(missing)} in each line, got none in the first; say which keys ` +
        `it has, such as --inputs ${spec.name}=p0..p63 or ${spec.name}=a,b, or --format requests if lines are requests`,
    );
  }
  const lost = keep.find((key) => !Object.hasOwn(first, key));
  if (lost !== undefined) throw new Error(`--keep: expected keys that there are, got ${preview(lost)}`);
}

function valueOfKey(row: JsonObject, key: string): unknown {
  return Object.hasOwn(row, key) ? row[key] : undefined;
}

/** One entry of `inputs`; what its elements are is for the core to check. */
function entryOf(row: JsonObject, { spec, keys }: InputKeys): string | Failure {
  const missing = keys.find((key) => !Object.hasOwn(row, key));
  if (missing !== undefined) {
    return failure('MISSING_INPUT', `input '${spec.name}': expected the key ${preview(missing)}, got none; add it`);
  }
  const value = keys.length === 1 ? valueOfKey(row, keys[0] as string) : keys.map((key) => valueOfKey(row, key));
  const shape = rowShape(spec, value);
  if ('code' in shape) return shape;
  const { name, datatype } = spec;
  // Flat as it is; nested, within the axis of the rows.
  const data = JSON.stringify(Array.isArray(value) && !Array.isArray(value[0]) ? value : [value]);
  return `{"name":${JSON.stringify(name)},"datatype":"${datatype}","shape":[${shapeInModel(spec, shape).join(',')}],"data":${data}}`;
}

/** The shape `[1, …]` of a row: what its nesting says, or, where it is flat, what one open size comes to. */
function rowShape({ name, shape }: TensorSpec, value: unknown): readonly number[] | Failure {
  const wanted = shape.slice(1);
  const nesting = nestingOf(value);
  if (nesting.length === wanted.length) {
    if (nesting.every((size, axis) => size > 0 && (typeof wanted[axis] === 'string' || size === wanted[axis]))) {
      return [1, ...nesting];
    }
  } else if (nesting.length < 2) {
    const elements = nesting[0] ?? 1;
    const open = wanted.filter((size) => typeof size === 'string').length;
    const known = wanted.reduce<number>((product, size) => product * (typeof size === 'string' ? 1 : size), 1);
    if (open === 0 ? elements === known : open === 1 && elements > 0 && elements % known === 0) {
      return [1, ...wanted.map((size) => (typeof size === 'string' ? elements / known : size))];
    }
  }
  return failure(
    'INVALID_SHAPE',
    `input '${name}': expected a row of the shape [${wanted.join(', ')}], got [${nesting.join(', ')}]; give it so many elements`,
  );
}

/** No tensor has as many axes. */
const MOST_LEVELS = 32;

/** The sizes of nested arrays, going by the first of each; none of a single value. */
function nestingOf(value: unknown): number[] {
  const sizes: number[] = [];
  for (let at = value; Array.isArray(at) && sizes.length < MOST_LEVELS; at = at[0]) sizes.push(at.length);
  return sizes;
}

function noObject(line: string, value: unknown): Failure {
  return value === undefined
    ? failure('INVALID_JSON', `line: expected an object as JSON, got ${line.length} characters that are not JSON`)
    : failure('INVALID_REQUEST', `line: expected an object with the model's inputs, got ${preview(value)}`);
}
