import type { Model, TensorSpec } from '../../lambda/core/model.ts';
import { DATATYPES, elementCount } from '../../lambda/core/tensor.ts';

/** Results of rows as CSV. */
export interface CsvResults {
  /** The names of the columns. */
  readonly header: string;
  /** The line of one row's result, a JSON document. */
  lineOf(result: string): string;
}

/** One output in the columns of a line. */
interface OutputColumns {
  readonly name: string;
  /** How many: undefined where it is one cell of JSON. */
  readonly elements: number | undefined;
  readonly columns: readonly string[];
  readonly isFloat: boolean;
}

interface Result {
  readonly message_id: string;
  readonly code?: string;
  readonly error?: string;
  readonly outputs?: readonly { readonly name: string; readonly data: readonly unknown[] }[];
  readonly result?: unknown;
  readonly kept?: Readonly<Record<string, unknown>>;
}

/** Outputs with more elements in a row are one cell. */
const MAX_COLUMNS = 1024;
/** What a transform makes of the outputs. */
const OWN_RESULT = 'result';

/**
 * Results with a line for each row: the columns `message_id`, those that are carried along, one for each element of an
 * output (`probabilities.0`, `probabilities.1`, …), `code` and `error`, which are empty where there is a score. An output
 * with more axes, with an open one, or with very many elements is one cell of JSON.
 *
 * @param kept the columns that are carried along
 * @see https://www.rfc-editor.org/rfc/rfc4180
 */
export function csvResults(model: Model, kept: readonly string[]): CsvResults {
  const names = new Set(['message_id', 'code', 'error', ...kept]);
  const hasOwnForm = model.transform?.encode !== undefined;
  const outputs = hasOwnForm ? [] : model.outputs.map((spec) => columnsOf(spec, names));
  const own = hasOwnForm ? [freeName(OWN_RESULT, names)] : [];
  const columns = ['message_id', ...kept, ...outputs.flatMap((output) => output.columns), ...own, 'code', 'error'];
  return {
    header: columns.map(cellOf).join(','),
    lineOf(text) {
      const {
        message_id: id,
        code = '',
        error = '',
        outputs: found,
        result,
        kept: carried = {},
      }: Result = JSON.parse(text);
      const cells = [
        id,
        ...kept.map((name) => (Object.hasOwn(carried, name) ? carried[name] : '')),
        ...outputs.flatMap((output) => cellsOf(output, found?.find(({ name }) => name === output.name)?.data)),
        ...(hasOwnForm ? [result] : []),
        code,
        error,
      ];
      return cells.map(cellOf).join(',');
    },
  };
}

function columnsOf({ name, shape, datatype }: TensorSpec, names: ReadonlySet<string>): OutputColumns {
  const row = shape.slice(1);
  const axes = row.filter((size) => size !== 1);
  const isVector = shape.length > 0 && axes.length < 2 && axes.every((size) => typeof size === 'number');
  const elements = elementCount(axes as number[]);
  const isFloat = DATATYPES[datatype].kind === 'float';
  const isOneCell = !isVector || elements > MAX_COLUMNS;
  const columns =
    isOneCell || axes.length === 0 ? [name] : Array.from({ length: elements }, (_, index) => `${name}.${index}`);
  return {
    name,
    elements: isOneCell ? undefined : elements,
    columns: columns.map((column) => freeName(column, names)),
    isFloat,
  };
}

/** A column that is carried along keeps its name. */
function freeName(name: string, names: ReadonlySet<string>): string {
  return names.has(name) ? freeName(`output.${name}`, names) : name;
}

function cellsOf(
  { name, elements, columns, isFloat }: OutputColumns,
  data: readonly unknown[] | undefined,
): readonly unknown[] {
  if (data === undefined) return columns.map(() => '');
  if (elements === undefined) return [data];
  if (data.length === elements) return isFloat ? data.map((value) => INFINITIES.get(value) ?? value) : data;
  throw new Error(
    `output '${name}': expected ${elements} elements a row, as the model says, got ${data.length}; write the results ` +
      'as ndjson (--out-format)',
  );
}

/** As NumPy reads and writes them. */
const INFINITIES = new Map<unknown, string>([
  ['Infinity', 'inf'],
  ['-Infinity', '-inf'],
]);

/** Texts as they are, in quotes where they must be; arrays and objects as JSON. */
function cellOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
