import * as z from 'zod';
import { createRowEncoder, encodeData } from '../core/encode.ts';
import { type Failure, isFailure } from '../core/failure.ts';
import { parseIfJson } from '../core/json.ts';
import type { ModelDescription } from '../core/model.ts';
import { decodeAll, elementsPerRow, isBase64Data, type Tensor } from '../core/tensor.ts';
import { decodeRaw } from '../core/values.ts';

/** Result of one row: a JSON document, and the failures that it tells of. */
export interface RowResult {
  readonly text: string;
  readonly failures: readonly Failure[];
}

/**
 * Returns whether rows of a table may share a request: its answer is that of each row alone only where rows are known not
 * to depend on each other.
 */
export function mayShareRequests({ sharing, independence, transform, inputs, outputs }: ModelDescription): boolean {
  const areIndependent = sharing !== 'never' && (independence === 'independent' || sharing !== 'compared');
  const areFirst = [...inputs, ...outputs].every(({ batchAxis = 0 }) => batchAxis === 0);
  return areIndependent && areFirst && transform === undefined;
}

const ANSWER = z.object({
  outputs: z.array(z.object({ shape: z.array(z.number()) })),
  raw_output_contents: z.array(z.string()),
});

/** Outputs of rows that shared a request. */
export class TableScores {
  readonly #outputs: readonly Tensor[];
  readonly #encode: (messageId: string, row: number) => string;
  readonly #values = new Map<string, Values>();

  private constructor(model: ModelDescription, outputs: readonly Tensor[]) {
    this.#outputs = outputs;
    this.#encode = createRowEncoder(model, outputs);
  }

  /**
   * Reads a binary answer.
   *
   * @returns undefined if it is none with `rows` rows of every output
   */
  static read(text: string, model: ModelDescription, rows: number): TableScores | undefined {
    const answer = ANSWER.safeParse(parseIfJson(text)).data;
    if (answer === undefined) return undefined;
    const outputs: Tensor[] = [];
    for (const [index, { name, datatype }] of model.outputs.entries()) {
      const { shape } = answer.outputs[index] ?? { shape: [] };
      const data = decodeRaw(answer.raw_output_contents[index], datatype, shape, () => name);
      if (shape[0] !== rows || isFailure(data)) return undefined;
      outputs.push({ name, datatype, shape, data: isBase64Data(data) ? decodeAll(data, datatype, shape) : data });
    }
    return new TableScores(model, outputs);
  }

  /** Returns the answer that a row would get to a request of its own. */
  textOf(id: string, row: number): string {
    return this.#encode(id, row);
  }

  /** Returns the elements of an output in a row, as JSON has them. */
  valuesOf(name: string, row: number): readonly unknown[] | undefined {
    const known = this.#values.get(name) ?? this.#parse(name);
    if (known === undefined) return undefined;
    this.#values.set(name, known);
    return known.elements.slice(row * known.width, (row + 1) * known.width);
  }

  #parse(name: string): Values | undefined {
    const output = this.#outputs.find((one) => one.name === name);
    if (output === undefined) return undefined;
    const { datatype, shape, data } = output;
    return { elements: JSON.parse(`[${encodeData(datatype, data)}]`), width: elementsPerRow(shape) };
  }
}

interface Values {
  readonly elements: readonly unknown[];
  readonly width: number;
}

const NO_FAILURES: readonly Failure[] = [];

/** Result of a row that shared a request. */
export class TableResult implements RowResult {
  readonly failures = NO_FAILURES;
  readonly id: string;
  readonly #scores: TableScores;
  readonly #row: number;

  constructor(id: string, scores: TableScores, row: number) {
    this.id = id;
    this.#scores = scores;
    this.#row = row;
  }

  get text(): string {
    return this.#scores.textOf(this.id, this.#row);
  }

  valuesOf(output: string): readonly unknown[] | undefined {
    return this.#scores.valuesOf(output, this.#row);
  }
}
