/** Writes the tables of docs/comparison.md from the JSON of a run. */
import { readFile, writeFile } from 'node:fs/promises';
import { figure } from '../../cli/format.ts';
import { table } from '../harness/report.ts';
import { median } from '../harness/turns.ts';
import type { FaultFigures, FieldFigures, SpeedFigures } from './field.ts';

const PAGE = new URL('../../docs/comparison.md', import.meta.url);

export async function writePage(figures: FieldFigures): Promise<void> {
  await writeFile(PAGE, pageWith(figures, await readFile(PAGE, 'utf8')));
}

/** Replaces each part between `<!-- begin NAME -->` and `<!-- end -->`. @throws Error for an unknown name */
export function pageWith(figures: FieldFigures, page: string): string {
  return page.replaceAll(
    /(<!-- begin (.+?) -->\n).*?(<!-- end -->)/gs,
    (_, begin: string, name: string, end: string) => {
      const part = PARTS[name];
      if (part === undefined) throw new Error(`docs/comparison.md: expected ${Object.keys(PARTS)}, got '${name}'`);
      return `${begin}${part(figures)}\n${end}`;
    },
  );
}

const PARTS: Readonly<Record<string, (figures: FieldFigures) => string>> = {
  machine: ({ date, machine, packages, leftOut }) =>
    [
      `${date}: ${machine.cpu}, ${machine.cores} cores, ${Math.round(machine.memoryBytes / 2 ** 30)} GB, ${machine.platform}, Node ${machine.node}, onnxruntime-node ${machine.onnxruntime}, ${[...new Set(Object.values(packages).flat())].sort().join(', ')}.`,
      ...Object.entries(leftOut).map(([name, why]) => `Left out: ${name}, ${why.split('\n')[0]}.`),
    ].join(' '),
  first: firsts,
  speed: ({ speed }) => {
    const digits = speed.filter(({ workload }) => workload === 'digits');
    const cell = (contestant: string, measure: Measure, { rows = 1, requests = 1, producers = 32 } = {}): string =>
      cellOf(found(digits, { contestant, rows, requests, producers }), measure);
    return table(namesIn(digits), {
      '': (name) => name,
      'rows/s': (name) => cell(name, 'rowsPerSecond'),
      'rows/s, 256 producers': (name) => cell(name, 'rowsPerSecond', { producers: 256 }),
      'p50, p99, ms': (name) => `${cell(name, 'p50Ms')}, ${cell(name, 'p99Ms')}`,
      'CPU, µs': (name) => cell(name, 'cpuMicroseconds'),
      'of 100 rows in a request': (name) => cell(name, 'cpuMicroseconds', { rows: 100 }),
      'of 100 requests in a message': (name) => cell(name, 'cpuMicroseconds', { requests: 100 }),
      'memory, MB': (name) => cell(name, 'memoryMb'),
      'start, ms': (name) => cell(name, 'startMs'),
    });
  },
  others: ({ speed }) => {
    const workloads = [...new Set(speed.map(({ workload }) => workload))].filter((name) => name !== 'digits');
    const columns = workloads.map((workload) => [
      workload,
      (contestant: string) =>
        cellOf(found(speed, { workload, contestant, rows: 1, requests: 1, producers: 32 }), 'rowsPerSecond'),
    ]);
    return table(namesIn(speed), { '': (name) => name, ...Object.fromEntries(columns) });
  },
  totals: ({ faults }) =>
    table(totalsOf(faults), {
      '': ({ name }) => name,
      asked: ({ sum }) => String(sum('asked')),
      right: ({ sum }) => String(sum('right')),
      differ: ({ sum }) => String(sum('differ')),
      harmed: ({ sum }) => String(sum('harmed')),
      lost: ({ sum }) => String(sum('lost')),
      'after a hang, s': ({ recovery }) => recovery('hang'),
      'after a kill, s': ({ recovery }) => recovery('server killed'),
    }),
};

/**
 * Returns the best contestant of each measure and batchscore's distance from it. Measures where batchscore is not the
 * best are first.
 */
function firsts({ speed, faults }: FieldFigures): string {
  const ofSpeed = (measure: Measure, producers: number, isOne: (one: SpeedFigures) => boolean) =>
    speed
      .filter((one) => one.workload === 'digits' && one.producers === producers && isOne(one))
      .map((one) => ({ name: `${one.contestant}${one.requests > 1 ? ', packed' : ''}`, value: middle(one, measure) }));
  const isAlone = ({ rows, requests }: SpeedFigures): boolean => rows * requests === 1;
  const isOfRow = ({ rows }: SpeedFigures): boolean => rows === 1;
  const measures: readonly [string, 'least' | 'most', { name: string; value: number }[]][] = [
    ['rows/s, requests of a row, 32 producers', 'most', ofSpeed('rowsPerSecond', 32, isAlone)],
    ['p50 of one producer, ms', 'least', ofSpeed('p50Ms', 1, isAlone)],
    ['CPU of a request in a call or message of its own, µs', 'least', ofSpeed('cpuMicroseconds', 32, isAlone)],
    [
      'CPU of a request with an answer of its own, packed if it can be, µs',
      'least',
      ofSpeed('cpuMicroseconds', 32, isOfRow),
    ],
    ['CPU of a row, 100 rows in a request, µs', 'least', ofSpeed('cpuMicroseconds', 32, (one) => !isOfRow(one))],
    ['memory, MB', 'least', ofSpeed('memoryMb', 32, isAlone)],
    ['start, ms', 'least', ofSpeed('startMs', 32, isAlone)],
    ['right answers under faults', 'most', totalsOf(faults).map(({ name, sum }) => ({ name, value: sum('right') }))],
  ];
  const rows = measures.map(([measure, better, all]) => {
    const sorted = all.toSorted((a, b) => (better === 'least' ? a.value - b.value : b.value - a.value));
    const [first, own] = [sorted[0], sorted.find(({ name }) => name.startsWith('batchscore'))];
    return { measure, first, own, isLoss: first !== own };
  });
  return table(
    rows.toSorted((a, b) => Number(b.isLoss) - Number(a.isLoss)),
    {
      '': ({ measure }) => measure,
      first: ({ first }) => first?.name ?? '–',
      'it has': ({ first }) => (first === undefined ? '–' : figure(first.value)),
      'batchscore has': ({ own }) => (own === undefined ? '–' : figure(own.value)),
      'times the first': ({ first, own }) => (first && own ? figure(own.value / first.value) : '–'),
    },
  );
}

function namesIn(some: readonly { readonly contestant: string }[]): string[] {
  return [...new Set(some.map(({ contestant }) => contestant))].sort();
}

function found(some: readonly SpeedFigures[], wanted: Partial<SpeedFigures>): SpeedFigures | undefined {
  return some.find((one) => Object.entries(wanted).every(([key, value]) => Reflect.get(one, key) === value));
}

type Measure = keyof SpeedFigures['turns'][number];

function middle({ turns }: SpeedFigures, measure: Measure): number {
  return median(turns.map((turn) => turn[measure]));
}

/** Formats the median of the rounds. */
function cellOf(one: SpeedFigures | undefined, measure: Measure): string {
  return one === undefined ? '–' : figure(middle(one, measure));
}

function totalsOf(faults: readonly FaultFigures[]) {
  return namesIn(faults).map((name) => {
    const own = faults.filter(({ contestant }) => contestant === name);
    return {
      name,
      sum: (key: 'asked' | 'right' | 'differ' | 'harmed' | 'lost') => own.reduce((total, one) => total + one[key], 0),
      recovery(fault: string): string {
        const seconds = own.find((one) => one.fault === fault)?.recoverS;
        return seconds === undefined ? '–' : seconds === null ? 'no' : figure(seconds);
      },
    };
  });
}
