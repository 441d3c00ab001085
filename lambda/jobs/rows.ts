import type { Failure } from '../core/failure.ts';

/** Rows of a file that were read together: requests, or a table. */
export interface Rows {
  readonly length: number;
  /** Returns the `message_id` of a row's result. */
  idOf(row: number): string;
  /** Returns the reason why a row cannot be scored. Undefined if it can. */
  failureOf(row: number): Failure | undefined;
  /** Returns the request of one row. Empty if the row has a failure. */
  requestOf(row: number): string;
  /** Returns the kept columns of a row as the JSON text of an object. Undefined if there are none. */
  keptOf(row: number): string | undefined;
  /** Returns the rows `from` to `to` (exclusive), without a copy. */
  slice(from: number, to?: number): Rows;
}

export interface IdPrefix {
  /** Beginning of each row's `message_id`, such as the path of its file and `#`. @default '' */
  readonly idPrefix?: string | undefined;
}

/** Adds the kept columns of a row to its result, a JSON document. */
export function withKept(text: string, kept: string | undefined): string {
  return kept === undefined ? text : `${text.slice(0, -1)},"kept":${kept}}`;
}

/** Rows that are requests as they are. */
export class RequestRows implements Rows {
  readonly #ids: readonly (number | string)[];
  readonly #texts: readonly string[];
  readonly #failures: ReadonlyMap<number, Failure>;
  readonly #from: number;
  readonly length: number;

  constructor(
    ids: readonly (number | string)[],
    texts: readonly string[],
    failures: ReadonlyMap<number, Failure> = new Map(),
    from = 0,
    length = ids.length,
  ) {
    this.#ids = ids;
    this.#texts = texts;
    this.#failures = failures;
    this.#from = from;
    this.length = length;
  }

  idOf(row: number): string {
    return String(this.#ids[this.#from + row]);
  }

  failureOf(row: number): Failure | undefined {
    return this.#failures.get(this.#from + row);
  }

  requestOf(row: number): string {
    return this.#texts[this.#from + row] as string;
  }

  keptOf(): undefined {
    return undefined;
  }

  slice(from: number, to = this.length): RequestRows {
    return new RequestRows(this.#ids, this.#texts, this.#failures, this.#from + from, to - from);
  }
}
