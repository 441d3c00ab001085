import { createRowEncoder } from '../core/encode.ts';
import { type Failure, isFailure } from '../core/failure.ts';
import { isObject, parseIfJson } from '../core/json.ts';
import type { ModelDescription } from '../core/model.ts';
import { decodeAll, elementsPerRow, isBase64Data, type Tensor } from '../core/tensor.ts';
import { decodeRaw, encodeData } from '../core/values.ts';

/** Result of one row: a JSON document, and the failures that it tells of. */
export interface RowResult {
  readonly text: string;
  readonly failures: readonly Failure[];
}

const NO_FAILURES: readonly Failure[] = [];

/** Result of a row that shared a request. Its text is made when it is asked for: a table of results needs none. */
export class TableResult implements RowResult {
  readonly failures = NO_FAILURES;
  readonly #id: string;
  readonly #scores: TableScores;
  readonly #row: number;

  constructor(id: string, scores: TableScores, row: number) {
    this.#id = id;
    this.#scores = scores;
    this.#row = row;
  }

  get text(): string {
    return this.#scores.textOf(this.#id, this.#row);
  }

  /** Returns the elements of an output, as JSON has them. */
  valuesOf(output: string): readonly unknown[] | undefined {
    return this.#scores.valuesOf(output, this.#row);
  }

  /** Returns texts of an output's elements, of all rows that shared the request, and where those of this row begin. */
  textsOf(output: string): (ColumnTexts & { readonly start: number }) | undefined {
    const found = this.#scores.textsOf(output);
    return found && { ...found, start: this.#row * found.width };
  }
}

/** Outputs of rows that shared a request. */
interface TableScores {
  textOf(id: string, row: number): string;
  valuesOf(output: string, row: number): readonly unknown[] | undefined;
  textsOf(output: string): ColumnTexts | undefined;
}

/** Elements of an output as texts: numbers as JSON has them, `NaN` and `Infinity`, and texts as they are. */
interface ColumnTexts {
  readonly texts: readonly string[];
  /** Elements of a row. */
  readonly width: number;
}

/** Reads a binary answer. @returns undefined if it is none with `rows` rows of every output */
export function readScores(text: string, model: ModelDescription, rows: number): TableScores | undefined {
  const answer = parseIfJson(text);
  if (!isObject(answer) || !Array.isArray(answer.outputs) || !Array.isArray(answer.raw_output_contents))
    return undefined;
  const outputs: Tensor[] = [];
  for (const [index, { name, datatype }] of model.outputs.entries()) {
    const shape: readonly number[] = answer.outputs[index]?.shape ?? [];
    const data = decodeRaw(answer.raw_output_contents[index], datatype, shape, () => name);
    if (shape[0] !== rows || isFailure(data)) return undefined;
    outputs.push({ name, datatype, shape, data: isBase64Data(data) ? decodeAll(data, datatype, shape) : data });
  }
  const byName = new Map(outputs.map((output) => [output.name, columnOf(output)]));
  return {
    textOf: createRowEncoder(model, outputs),
    valuesOf(name, row) {
      const column = byName.get(name);
      return column?.values().slice(row * column.width, (row + 1) * column.width);
    },
    textsOf(name) {
      const column = byName.get(name);
      return column && { texts: column.texts(), width: column.width };
    },
  };
}

/** Elements of an output, in the forms that are asked for. Each is made once. */
function columnOf({ datatype, data, shape }: Tensor) {
  let values: readonly unknown[] | undefined;
  let texts: readonly string[] | undefined;
  return {
    width: elementsPerRow(shape),
    values: (): readonly unknown[] => (values ??= JSON.parse(`[${encodeData(datatype, data)}]`)),
    texts: (): readonly string[] =>
      (texts ??= Array.isArray(data) ? data : encodeData(datatype, data).split(',').map(unquoted)),
  };
}

/** JSON has numbers in quotes that are not finite, or that a double does not hold. */
function unquoted(text: string): string {
  return text.startsWith('"') ? text.slice(1, -1) : text;
}
