import type { WorkerFigures } from '../measure/worker.ts';
import { microseconds, table } from './table.ts';
import type { Target } from './target.ts';

const MOST_TIMES_BARE = 1.15;
const MOST_SINGLE_MICROSECONDS = 250;
const MOST_PACKED_BOTH_MICROSECONDS = 12;

/** A row for each way that requests and results travel. */
export function workerTable(rows: readonly WorkerFigures[]): string {
  return table(
    [
      'encoding',
      'requests in a message',
      'results in a message',
      'CPU a request',
      'bare loop',
      "bare loop, SDK's client",
      'times the bare loop',
      "times that of the SDK's client",
      'requests/s',
    ],
    rows.map((row) => [
      row.encoding,
      String(row.requestsPerMessage),
      String(row.resultsPerMessage),
      microseconds(row.worker.cpuMicroseconds),
      microseconds(row.bare.cpuMicroseconds),
      microseconds(row.plain.cpuMicroseconds),
      row.timesBare.toFixed(2),
      row.timesPlain.toFixed(2),
      row.worker.requestsPerSecond.toFixed(0),
    ]),
  );
}

/** What a request must cost the worker at most. */
export function assessWorker(rows: readonly WorkerFigures[]): Target[] {
  return rows.flatMap((row) => {
    const way = `${row.encoding}, ${wayOf(row)}`;
    const { cpuMicroseconds } = row.worker;
    const most = mostMicroseconds(row);
    return [
      {
        target: `${way}: at most ${MOST_TIMES_BARE} times the bare loop`,
        figure: `${row.timesBare.toFixed(2)} times`,
        reached: row.timesBare <= MOST_TIMES_BARE,
      },
      ...(most === undefined
        ? []
        : [
            {
              target: `${way}: at most ${most} µs CPU a request`,
              figure: microseconds(cpuMicroseconds),
              reached: cpuMicroseconds <= most,
            },
          ]),
    ];
  });
}

function wayOf({ requestsPerMessage, resultsPerMessage }: WorkerFigures): string {
  if (requestsPerMessage > 1) return 'packed both ways';
  return resultsPerMessage === 1 ? 'single messages' : 'packed results';
}

function mostMicroseconds({ requestsPerMessage, resultsPerMessage }: WorkerFigures): number | undefined {
  if (requestsPerMessage > 1) return MOST_PACKED_BOTH_MICROSECONDS;
  return resultsPerMessage === 1 ? MOST_SINGLE_MICROSECONDS : undefined;
}
