import { isFailure, plural } from '../../lambda/core/failure.ts';
import { isObject, type JsonObject, parseIfJson } from '../../lambda/core/json.ts';
import { isShallow } from '../../lambda/core/outline.ts';
import { DATATYPES, decodeAll, isBase64Data, isDatatype } from '../../lambda/core/tensor.ts';
import { decodeRaw } from '../../lambda/core/values.ts';
import { readSampleLines, SAMPLES_FILE } from '../../lambda/onnx/probes.ts';
import { linesTogether } from '../textFiles.ts';

/** What came in one input or output, or in one key of a transform's requests and results. */
interface Column {
  readonly name: string;
  /** Elements, missing ones left out. */
  readonly values: number;
  /** Elements that are null, NaN or an empty text, and requests without the column. */
  readonly missing: number;
  /** Of the finite numbers. */
  readonly min?: number;
  readonly mean?: number;
  readonly max?: number;
  /** How often each text, truth value or whole number came, the most frequent first; left out where too many differ. */
  readonly categories?: readonly (readonly [value: string, count: number])[];
}

interface Summary {
  readonly requests: number;
  readonly inputs: readonly Column[];
  /** Of lines that carry their answers. */
  readonly outputs: readonly Column[];
}

/** What came, beside the samples of the model. */
export interface Captured {
  readonly captured: Summary;
  readonly samples: Summary;
}

/**
 * Sums up requests, captured or other ones.
 *
 * @param lines of the file
 * @param name of the file, for messages
 * @param input the name of the model's only input, which a request in the short form leaves out
 * @param folder of the model
 * @throws Error naming a line that is no request
 */
export async function summarizeCaptured(
  lines: AsyncIterable<Buffer | string>,
  name: string,
  input: string,
  folder: string,
): Promise<Captured> {
  const captured = createSummary(input);
  let number = 0;
  for await (const some of linesTogether(lines)) {
    for (const line of some) {
      number += 1;
      if (line !== '' && line.trim() !== '') captured.add(line, `${name}:${number}`);
      if (captured.models.size > 1) {
        const [one, other] = captured.models;
        throw new Error(
          `${name}:${number}: expected answers of one model, got one of '${other}' after '${one}'; give a file of each`,
        );
      }
    }
  }
  const samples = createSummary(input);
  const { path, lines: ofSamples } = await readSampleLines(folder);
  for (const sample of ofSamples) samples.add(sample.line, `${path}:${sample.number}`);
  return { captured: captured.end(), samples: samples.end() };
}

/** Rows of a table: what came in each input, or output, and below it what the samples hold. */
export function capturedRows({ captured, samples }: Captured, side: 'inputs' | 'outputs'): string[][] {
  const names = new Set([...captured[side], ...samples[side]].map(({ name }) => name));
  const rows = [...names].flatMap((name) =>
    Object.entries({ captured, [SAMPLES_FILE]: samples }).flatMap(([from, summary]) => {
      const column = summary[side].find((one) => one.name === name);
      return column === undefined ? [] : [rowOf(column, from)];
    }),
  );
  return [['name', 'of', 'values', 'missing', 'min', 'mean', 'max', 'most frequent'], ...rows];
}

const SHOWN = 5;

function rowOf({ name, values, missing, min, mean, max, categories = [] }: Column, from: string): string[] {
  const numbers = [min, mean, max].map((one) => (one === undefined ? '' : String(Number(one.toPrecision(4)))));
  const shown = categories.slice(0, SHOWN).map(([value, count]) => `${value} ${count}×`);
  const more = categories.length > SHOWN ? `, and ${plural(categories.length - SHOWN, 'other')}` : '';
  return [name, from, String(values), String(missing), ...numbers, `${shown.join(', ')}${more}`];
}

function createSummary(input: string) {
  const sides = { inputs: createColumns(), outputs: createColumns() };
  const models = new Set<unknown>();
  let requests = 0;
  return {
    /** Whose answers the lines carry. */
    models,
    add(line: string, place: string): void {
      const parsed = isShallow(line) ? parseIfJson(line) : undefined;
      if (!isObject(parsed))
        throw new Error(`${place}: expected a request as JSON, got something else; delete the line`);
      const { parameters, ...request } = parsed;
      requests += 1;
      sides.inputs.add(request, 'inputs', 'raw_input_contents', 'instances', input);
      const captured = isObject(parameters) ? parameters.captured : undefined;
      const answer = isObject(captured) ? captured.answer : undefined;
      if (!isObject(answer)) return;
      if (answer.model_name !== undefined) models.add(answer.model_name);
      sides.outputs.add(answer, 'outputs', 'raw_output_contents', 'predictions', 'prediction');
    },
    end: (): Summary => ({ requests, inputs: sides.inputs.end(), outputs: sides.outputs.end() }),
  };
}

/** Keys that say what a request or an answer is, and hold nothing of a model. */
const OF_ENVELOPES = [
  'message_id',
  'id',
  'model_name',
  'model_version',
  'inputs',
  'outputs',
  'instances',
  'predictions',
];
/** So many categories are told apart. */
const MAX_CATEGORIES = 1_000;
/** Whole numbers of more than so many values are amounts. */
const MAX_CLASSES = 20;

interface Counts {
  seen: number;
  values: number;
  missing: number;
  numbers: number;
  sum: number;
  min: number;
  max: number;
  readonly categories: Map<string, number>;
  isWhole: boolean;
}

function createColumns() {
  const columns = new Map<string, Counts>();
  let documents = 0;
  const columnOf = (name: string): Counts => {
    const none = { seen: 0, values: 0, missing: 0, numbers: 0, sum: 0, isWhole: true };
    const column = columns.get(name) ?? { ...none, min: Infinity, max: -Infinity, categories: new Map() };
    columns.set(name, column);
    return column;
  };
  const addElement = (column: Counts, element: unknown): void => {
    if (element === null || element === '' || Number.isNaN(element)) {
      column.missing += 1;
      return;
    }
    column.values += 1;
    if (typeof element === 'number' || typeof element === 'bigint') {
      const number = Number(element);
      if (Number.isFinite(number)) {
        column.numbers += 1;
        column.sum += number;
        column.min = Math.min(column.min, number);
        column.max = Math.max(column.max, number);
      }
      column.isWhole &&= Number.isInteger(number);
    }
    const category = String(element);
    const before = column.categories.get(category);
    if (before !== undefined || column.categories.size <= MAX_CATEGORIES) {
      column.categories.set(category, (before ?? 0) + 1);
    }
  };
  /** What lies in arrays belongs to the column; a key of an object makes another. */
  const walk = (value: unknown, name: string, read: (element: unknown) => unknown): void => {
    if (Array.isArray(value) || ArrayBuffer.isView(value)) {
      for (const element of value as Iterable<unknown>) walk(element, name, read);
    } else if (isObject(value)) {
      for (const [key, member] of Object.entries(value)) walk(member, name === '' ? key : `${name}.${key}`, read);
    } else addElement(columnOf(name), read(value));
  };
  return {
    add(document: JsonObject, tensors: string, raw: string, rows: string, only: string): void {
      documents += 1;
      const before = new Map([...columns].map(([name, { values, missing }]) => [name, values + missing]));
      const contents = document[raw];
      for (const [index, tensor] of (Array.isArray(document[tensors]) ? document[tensors] : []).entries()) {
        if (!isObject(tensor) || !isDatatype(tensor.datatype)) continue;
        const isText = DATATYPES[tensor.datatype].kind === 'string';
        const binary = Array.isArray(contents) ? elementsIn(contents[index], tensor) : undefined;
        walk(binary ?? tensor.data, String(tensor.name), isText ? (text) => text : numberIn);
      }
      for (const row of Array.isArray(document[rows]) ? document[rows] : [])
        walk(row, isObject(row) ? '' : only, numberIn);
      for (const [key, value] of Object.entries(document)) {
        if (!OF_ENVELOPES.includes(key) && key !== raw) walk(value, key, (element) => element);
      }
      for (const [name, column] of columns) {
        if (column.values + column.missing > (before.get(name) ?? 0)) column.seen += 1;
      }
    },
    end: (): Column[] =>
      [...columns].map(([name, column]) => {
        const { values, missing, numbers, sum, min, max, categories, isWhole, seen } = column;
        const isClasses = isWhole && categories.size <= MAX_CLASSES;
        return {
          name,
          values,
          missing: missing + documents - seen,
          ...(numbers > 0 && { min, mean: sum / numbers, max }),
          ...((values > numbers || isClasses) &&
            categories.size <= MAX_CATEGORIES && {
              categories: [...categories].toSorted(([, one], [, other]) => other - one),
            }),
        };
      }),
  };
}

/** Numbers that JSON has no word for come as texts. */
function numberIn(element: unknown): unknown {
  const isNumber = typeof element === 'string' && /^(NaN|-?Infinity|-?\d+)$/.test(element);
  return isNumber ? Number(element) : element;
}

/** The elements of a tensor in binary; undefined where they are none, as those of a request that was refused. */
function elementsIn(contents: unknown, { datatype, shape }: JsonObject): Iterable<unknown> | undefined {
  if (!isDatatype(datatype) || !Array.isArray(shape)) return undefined;
  const data = decodeRaw(contents, datatype, shape, () => '');
  if (isFailure(data)) return undefined;
  return isBase64Data(data) ? decodeAll(data, datatype, shape) : data;
}
