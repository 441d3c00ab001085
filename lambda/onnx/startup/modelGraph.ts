import type { KnownValues } from './probes.ts';

/** What is remarkable of the nodes with one operator. */
export interface Operator {
  /** One of them works along axis 0. */
  readonly overBatch: boolean;
  /** One of them is in training mode. */
  readonly training: boolean;
}

/** What a model is made of, as far as its rows' independence is concerned. */
export interface ModelGraph extends KnownValues {
  /** By the operators' names. */
  readonly operators: ReadonlyMap<string, Operator>;
}
