import type { Failure } from '../core/failure.ts';
import type { Body } from '../core/microBatch.ts';

/** Rows of a file that were read together: requests, or a table. */
export interface Rows {
  readonly length: number;
  /** Returns the `message_id` of a row's result. */
  idOf(row: number): string;
  /** Returns the reason why a row cannot be scored. Undefined if it can. */
  failureOf(row: number): Failure | undefined;
  /** Returns the request of one row. Empty if the row has a failure. */
  requestOf(row: number): Body;
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

/** Returns rows that are requests as they are. */
export function requestRows(
  ids: readonly (number | string)[],
  texts: readonly string[],
  failures: readonly (Failure | undefined)[] = [],
): Rows {
  return {
    length: ids.length,
    idOf: (row) => String(ids[row]),
    failureOf: (row) => failures[row],
    requestOf: (row) => texts[row] as string,
    keptOf: () => undefined,
    slice: (from, to) => requestRows(ids.slice(from, to), texts.slice(from, to), failures.slice(from, to)),
  };
}
