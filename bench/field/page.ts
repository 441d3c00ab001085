/** Writes the tables of docs/comparison.md from the JSON of a run. */

import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { figure, table } from '../harness/report.ts';
import { median } from '../harness/turns.ts';
import type { FaultFigures, FieldFigures, SpeedFigures } from './field.ts';
import { bodiesOf, WORKLOADS, type Workload } from './workloads.ts';

const PAGE = new URL('../../docs/comparison.md', import.meta.url);

export async function writePage(figures: FieldFigures): Promise<void> {
  await writeFile(PAGE, pageWith(figures, await readFile(PAGE, 'utf8')));
}

/** The page with each part between `<!-- begin NAME -->` and `<!-- end -->` written anew. @throws Error for another name */
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
  first: (figures) => firsts(figures),
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
  prices: () =>
    `Dollars for a million rows of digits on busy processors, at the prices of \`cli/prices.json\`. A function pays ${FUNCTION_GB.toFixed(4)} GB × ${price('lambdaArmGbSecond')} $ a second on arm64, also while it waits for calls, and an invocation for ${MESSAGES} messages. A worker or server pays CPU hours of Fargate on arm64 with ${TASK_GB} GB, ${taskHour().toFixed(4)} $ each. A queue costs ${price('sqsStandardMillionRequests')} $ for a million requests, each of at most ${MESSAGES} messages and 64 KiB. Load balancers, logs and idle time are not counted: a server that runs all month costs ${(HOURS * taskHour()).toFixed(2)} $, an idle function only [the polls of its queue](operations.md#what-it-costs).`,
  cost: (figures) => costs(figures),
};

/** Who is first in what, and how far batchscore is from that. */
function firsts({ speed, faults }: FieldFigures): string {
  const digits = speed.filter(({ workload }) => workload === 'digits');
  const ofSpeed = (measure: Measure, producers: number, isOne: (one: SpeedFigures) => boolean) =>
    digits
      .filter((one) => one.producers === producers && isOne(one))
      .map((one) => ({ name: `${one.contestant}${one.requests > 1 ? ', packed' : ''}`, value: middle(one, measure) }));
  const isAlone = ({ rows, requests }: SpeedFigures): boolean => rows * requests === 1;
  const measures: readonly [string, 'least' | 'most', { name: string; value: number }[]][] = [
    ['rows/s, requests of a row, 32 producers', 'most', ofSpeed('rowsPerSecond', 32, isAlone)],
    ['p50 of one producer, ms', 'least', ofSpeed('p50Ms', 1, isAlone)],
    ['CPU of a request in a call or message of its own, µs', 'least', ofSpeed('cpuMicroseconds', 32, isAlone)],
    [
      'CPU of a request with an answer of its own, packed where that can be, µs',
      'least',
      ofSpeed('cpuMicroseconds', 32, ({ rows }) => rows === 1),
    ],
    ['CPU of a row, 100 rows in a request, µs', 'least', ofSpeed('cpuMicroseconds', 32, ({ rows }) => rows > 1)],
    ['memory, MB', 'least', ofSpeed('memoryMb', 32, isAlone)],
    ['start, ms', 'least', ofSpeed('startMs', 32, isAlone)],
    ['right answers under faults', 'most', totalsOf(faults).map(({ name, sum }) => ({ name, value: sum('right') }))],
  ];
  return table(
    measures.map(([measure, better, all]) => {
      const sorted = all.toSorted((a, b) => (better === 'least' ? a.value - b.value : b.value - a.value));
      return { measure, first: sorted[0], own: sorted.find(({ name }) => name.startsWith('batchscore')) };
    }),
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

/** Median of the rounds. */
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

const PRICES: Readonly<Record<string, number>> = JSON.parse(
  readFileSync(new URL('../../cli/prices.json', import.meta.url), 'utf8'),
);
const FUNCTION_GB = 1769 / 1024;
const TASK_GB = 2;
const HOURS = 730;
/** Messages of a call, and of an invocation. */
const MESSAGES = 10;
/** Results that share 64 KiB, as docs/operations.md has it. */
const RESULTS = 112;
/** What SQS bills as one request, at most. */
const CHUNK_BYTES = 65_536;

function price(key: string): number {
  const found = PRICES[key];
  if (found === undefined) throw new Error(`cli/prices.json: expected ${key}, got ${Object.keys(PRICES)}`);
  return found;
}

function taskHour(): number {
  return price('fargateArmVcpuHour') + TASK_GB * price('fargateArmGbHour');
}

/** Dollars for a million rows of digits at 32 producers, on processors that are busy all the time. */
function costs({ speed }: FieldFigures): string {
  const [digits] = WORKLOADS as readonly [Workload];
  const some = speed.filter(({ workload, producers }) => workload === digits.name && producers === 32);
  const cell = (contestant: string, rows: number, requests: number): string => {
    const one = found(some, { contestant, rows, requests });
    return one === undefined ? '–' : dollarsFor(one, digits).toFixed(4);
  };
  return table(namesIn(some), {
    '': (name) => name,
    'requests of a row': (name) => cell(name, 1, 1),
    '100 requests in a message': (name) => cell(name, 1, 100),
    'requests of 100 rows': (name) => cell(name, 100, 1),
  });
}

function dollarsFor(one: SpeedFigures, workload: Workload): number {
  const isFunction = one.contestant.includes('function');
  const micros = middle(one, 'cpuMicroseconds');
  const perMessage = one.rows * one.requests;
  // A million times so many microseconds are as many seconds. A function is billed while it waits for a call, too.
  const compute = isFunction
    ? Math.max(micros, 1e6 / middle(one, 'rowsPerSecond')) * FUNCTION_GB * price('lambdaArmGbSecond') +
      price('lambdaMillionRequests') / MESSAGES / perMessage
    : (micros / 3600) * taskHour();
  if (!isFunction && !one.contestant.includes('worker')) return compute;
  const [body = ''] = bodiesOf(workload, 1, one.rows);
  // Results are packed as far as they are written together.
  const inMessage = Math.min(RESULTS, isFunction ? MESSAGES * perMessage : RESULTS);
  const calls =
    callsFor(one.requests * body.length) / perMessage + callsForOne(inMessage * (CHUNK_BYTES / RESULTS)) / inMessage;
  return compute + price('sqsStandardMillionRequests') * calls;
}

/** To send a message with nine others, to receive and to delete it, in requests as SQS bills them. */
function callsFor(bytes: number): number {
  return 2 * Math.max(1 / MESSAGES, bytes / CHUNK_BYTES) + 1 / MESSAGES;
}

/** The same for one that is sent as soon as it is there. */
function callsForOne(bytes: number): number {
  return 1 + Math.max(1 / MESSAGES, bytes / CHUNK_BYTES) + 1 / MESSAGES;
}
