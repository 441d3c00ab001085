import type { Readable } from 'node:stream';
import { matchColumns } from '../../lambda/jobs/planJob.ts';
import {
  fieldsOf,
  type LineReader,
  type PieceRow,
  requestOfFields,
  requestOfLine,
} from '../../lambda/jobs/textRows.ts';
import { UsageError } from '../arguments.ts';
import { batchesOfLines } from '../lineBatches.ts';
import { firstObject, formatByLines } from './dataFormat.ts';
import { npyBatches } from './npyBatches.ts';
import { requestOfObject } from './objectRows.ts';
import type { RowOptions } from './rowOptions.ts';

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
