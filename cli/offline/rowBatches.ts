import type { Readable } from 'node:stream';
import { type Failure, failure, preview } from '../../lambda/core/failure.ts';
import { isObject, type JsonObject, parseIfJson } from '../../lambda/core/json.ts';
import { type Model, shapeInModel, type TensorSpec } from '../../lambda/core/model.ts';
import { notAmong } from '../../lambda/core/wrongValue.ts';
import type { Spec } from '../../lambda/jobs/jobTypes.ts';
import { matchColumns } from '../../lambda/jobs/planJob.ts';
import {
  fieldsOf,
  type LineReader,
  type PieceRow,
  requestOfFields,
  requestOfLine,
} from '../../lambda/jobs/textRows.ts';

import { UsageError } from '../arguments.ts';
import { batchesOfLines, type LineBatchLimits } from '../textFiles.ts';
import { npyBatches } from './npyBatches.ts';

/**
 * The rows of a file in batches, in order: a row's id is the number of its line, or of its place in the array, from 0.
 *
 * @param signal ends them after the batch that was asked for last
 * @throws Error when the file has no header, columns that do not fit, or is no array that can be read
 */
export async function* rowBatches(
  input: Readable,
  options: RowOptions,
  signal: AbortSignal,
): AsyncGenerator<readonly PieceRow[]> {
  if (options.format === 'npy') {
    refuseColumns(options.spec, 'an array, which has no columns');
    yield* npyBatches(input, options, signal);
    return;
  }
  let lines: Lines | undefined;
  for await (const batch of batchesOfLines(input, options.limits, signal)) {
    const isFirst = lines === undefined;
    lines ??= linesOf(
      batch.map(({ text }) => text),
      options,
    );
    const { read } = lines;
    const rows = isFirst && lines.hasHeader ? batch.slice(1) : batch;
    if (rows.length > 0) yield rows.map(({ number, text }) => ({ id: String(number), ...read(text) }));
  }
  if (lines === undefined && options.format === 'csv' && !signal.aborted) throw noHeader(options.name, 'nothing');
}

/** How lines are read, and whether the first one names columns. */
interface Lines {
  readonly read: LineReader;
  readonly hasHeader: boolean;
}

function linesOf(batch: readonly string[], options: RowOptions): Lines {
  const { model, format, spec, takesRequests } = options;
  switch (format ?? formatByLines(batch, model)) {
    case 'csv':
      return { read: readerOfCsv(batch[0] ?? '', options), hasHeader: true };
    case 'ndjson':
      return { read: requestOfObject(firstObject(batch), model, spec), hasHeader: false };
    default:
      refuseColumns(spec, 'requests, one a line');
      if (!takesRequests) {
        throw new UsageError(
          'expected rows of a data file for results as CSV, got requests; write the results as ndjson, or give CSV, ' +
            'plain objects or npy',
        );
      }
      return { read: requestOfLine, hasHeader: false };
  }
}

function readerOfCsv(header: string, { model, name, spec }: RowOptions): LineReader {
  const columns = fieldsOf(header);
  if (columns === undefined) throw noHeader(name, 'a quoted name that does not end');
  return requestOfFields({ columns, inputs: matchColumns(model, columns, spec), keep: spec.keep ?? [] });
}

function noHeader(name: string, got: string): Error {
  return new Error(`${name}: expected the names of the columns in the first line of CSV, got ${got}; add them`);
}

function refuseColumns({ inputs, keep }: RowOptions['spec'], got: string): void {
  const option = inputs === undefined ? '--keep' : '--inputs';
  if (inputs === undefined && keep === undefined) return;
  throw new UsageError(`${option}: expected a file with columns, CSV or plain objects, got ${got}; leave it out`);
}

/** What is known of a file of rows before it is read. */
export interface RowOptions {
  readonly model: Model;
  /** Of the file, for messages. */
  readonly name: string;
  /** @default what the first line tells */
  readonly format: DataFormat | undefined;
  /** Which columns make up an input, and which are carried beside the result. */
  readonly spec: Pick<Spec, 'inputs' | 'keep'>;
  /** Whether lines may be requests: their results are not columns. */
  readonly takesRequests: boolean;
  readonly limits: LineBatchLimits;
  /** Of the file; undefined for stdin. */
  readonly bytes: number | undefined;
}

/** What a file holds: requests or plain objects, one a line, CSV with a header, or one array of NumPy. */
export const DATA_FORMATS = ['requests', 'ndjson', 'csv', 'npy'] as const;
type DataFormat = (typeof DATA_FORMATS)[number];

/** By how its name ends; undefined for lines of JSON, of which the first one tells. */
export function formatByEnding(path: string): DataFormat | undefined {
  if (/\.csv$/i.test(path)) return 'csv';
  return /\.npy$/i.test(path) ? 'npy' : undefined;
}

/** One of these makes an object a request, whatever the model's inputs are called. */
const KEYS_OF_REQUESTS = ['inputs', 'instances', 'model_name'];

/**
 * What lines are: requests or plain objects, as the first of them tells that is an object. Of a model with a transform
 * all are requests: it knows its own keys.
 */
function formatByLines(lines: Iterable<string>, { transform }: Model): 'requests' | 'ndjson' {
  if (transform?.decode !== undefined) return 'requests';
  const first = firstObject(lines);
  if (first === undefined) return 'requests';
  return isRequest(first) ? 'requests' : 'ndjson';
}

export function isRequest(object: JsonObject): boolean {
  return KEYS_OF_REQUESTS.some((key) => Object.hasOwn(object, key));
}

/** The first line that is an object with a key. */
function firstObject(lines: Iterable<string>): JsonObject | undefined {
  for (const line of lines) {
    const value = parseIfJson(line);
    if (isObject(value) && Object.keys(value).length > 0) return value;
  }
  return undefined;
}

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
function requestOfObject(first: JsonObject | undefined, model: Model, columns: Columns): LineReader {
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
  const there = Object.keys(first);
  for (const { spec, keys } of inputs) {
    const missing = keys.find((key) => !there.includes(key));
    if (missing === undefined) continue;
    throw new Error(
      `input '${spec.name}': ${notAmong('keys of the first line', there, [missing])}; say which keys make it up: --inputs ` +
        `${spec.name}=KEY,KEY or ${spec.name}=FIRST..LAST, or give --format requests if lines are requests`,
    );
  }
  const lost = keep.filter((key) => !there.includes(key));
  if (lost.length > 0) throw new Error(`--keep: ${notAmong('keys of the first line', there, lost)}`);
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
const MAX_LEVELS = 32;

/** The sizes of nested arrays, going by the first of each; none of a single value. */
function nestingOf(value: unknown): number[] {
  const sizes: number[] = [];
  for (let at = value; Array.isArray(at) && sizes.length < MAX_LEVELS; at = at[0]) sizes.push(at.length);
  return sizes;
}

function noObject(line: string, value: unknown): Failure {
  return value === undefined
    ? failure('INVALID_JSON', `line: expected an object as JSON, got ${line.length} characters that are not JSON`)
    : failure('INVALID_REQUEST', `line: expected an object with the model's inputs, got ${preview(value)}`);
}
