/**
 * Why a micro-batch took no more: `full` no more rows, `budget` no more elements, `padding` another run costs less than
 * the padding that the next request would bring, `end` nothing left to add.
 */
export type CloseReason = 'full' | 'budget' | 'padding' | 'end';

/** What one run was, for metrics and for whoever asks why a batch was small. */
export interface MicroBatchReport {
  readonly model: string;
  readonly version: string;
  readonly requests: number;
  readonly rows: number;
  readonly paddedRows: number;
  readonly maxBatchRows: number;
  /** Size that the ragged axis was padded to; 1 without one. */
  readonly paddedLength: number;
  /** Share of the elements run that nobody sent, from 0 to 1. */
  readonly paddingShare: number;
  readonly closedBecause: CloseReason;
  readonly stackMs: number;
  readonly runMs: number;
  readonly encodeMs: number;
}

/** What is told of the work while it goes on. Never a message's content. */
export interface Observer {
  microBatch(report: MicroBatchReport): void;
  /** The records of an invocation were decoded in so many milliseconds, reading their payloads included. */
  decoded(decodeMs: number): void;
  /** Results of one or more micro-batches were written together in so many milliseconds. */
  written(writeMs: number): void;
  /** A run did not end in its time and was left behind. */
  runAbandoned(model: { readonly name: string; readonly version: string }, ranMs: number): void;
  /** Something that is a bug or an outage rather than a record's fault; the records it met are handed back. */
  problem(error: unknown): void;
}
