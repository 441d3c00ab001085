import type { HopFigures } from '../measure/hops.ts';
import { microseconds, table } from './table.ts';
import type { Target } from './target.ts';

const MOST_SINGLE_MICROSECONDS = 75;
const MOST_PACKED_RESULTS_MICROSECONDS = 20;
const MOST_PACKED_BOTH_MICROSECONDS = { json: 8, binary: 5 };
const MOST_SHARE_OF_DOLLARS = 0.1;

/** A row for each way that requests and results travel. */
export function hopTable(hops: readonly HopFigures[]): string {
  return table(
    [
      'results to',
      'encoding',
      'requests in a message',
      'results in a message',
      'CPU a request',
      'wall a request',
      'calls per thousand',
      '$ a million',
      'of it SQS',
      'a lone message',
    ],
    hops.map((row) => [
      row.store,
      row.encoding,
      String(row.requestsPerMessage),
      String(row.resultsPerMessage),
      microseconds(row.cpuMicroseconds),
      microseconds(row.wallMicroseconds),
      row.callsPerThousand.toFixed(1),
      row.dollars.toFixed(4),
      row.sqsDollars.toFixed(4),
      row.loneMs === undefined ? '' : `${row.loneMs.toFixed(2)} ms`,
    ]),
  );
}

/** What hops to and from queues must cost at most. */
export function assessHops(hops: readonly HopFigures[]): Target[] {
  return hops
    .filter(({ store }) => store === 'queue')
    .flatMap((row) => [...cpuTarget(row), ...dollarTarget(row, hops)]);
}

function cpuTarget({ requestsPerMessage, resultsPerMessage, encoding, cpuMicroseconds }: HopFigures): Target[] {
  const held = (way: string, most: number): Target[] => [
    {
      target: `hops, ${encoding}: ${way} at most ${most} µs CPU a request`,
      figure: microseconds(cpuMicroseconds),
      reached: cpuMicroseconds <= most,
    },
  ];
  if (requestsPerMessage === 'fill') return [];
  if (requestsPerMessage > 1) return held('packed both ways', MOST_PACKED_BOTH_MICROSECONDS[encoding]);
  return resultsPerMessage === 1
    ? held('single messages', MOST_SINGLE_MICROSECONDS)
    : held('packed results', MOST_PACKED_RESULTS_MICROSECONDS);
}

function dollarTarget({ requestsPerMessage, encoding, dollars }: HopFigures, hops: readonly HopFigures[]): Target[] {
  const single = hops.find(
    (row) =>
      row.store === 'queue' && row.encoding === encoding && row.requestsPerMessage === 1 && row.resultsPerMessage === 1,
  );
  if (requestsPerMessage !== 'fill' || single === undefined) return [];
  return [
    {
      target: `hops, ${encoding}: messages filled both ways cost at most a tenth of single ones`,
      figure: `${dollars.toFixed(4)} $ a million, single ${single.dollars.toFixed(4)} $`,
      reached: dollars <= single.dollars * MOST_SHARE_OF_DOLLARS,
    },
  ];
}
