import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseOptions, runCommand, type Streams, UsageError, wholeNumber } from '../cli/arguments.ts';
import { duration, figure, size } from '../cli/format.ts';
import { atLeast, atMost, type Columns, table } from './harness/report.ts';
import { describeMachine, type Machine } from './harness/turns.ts';
import { type HopFigures, measureHops } from './measure/hops.ts';
import { type GainFigures, measureGains } from './measure/scenario.ts';
import { measureTables, type TableFigures } from './measure/tables.ts';
import { measureWorker, type WorkerFigures } from './measure/workerCost.ts';
import type { Packing } from './workload/messages.ts';
import { SCENARIOS } from './workload/scenarios.ts';

const HOPS = 'hops';
const WORKER = 'worker';
const TABLES = 'tables';
const BY_DEFAULT = [...SCENARIOS.map(({ name }) => name), HOPS];
const NAMES = [...BY_DEFAULT, WORKER, TABLES];
const MAX_MESSAGES = 100_000;
const MAX_ROUNDS = 1_000;
/** Default rounds. Turns of hops are short, so there are more of them. */
const ROUNDS = {
  gains: { full: 3, quick: 1 },
  hops: { full: 5, quick: 2 },
  worker: { full: 7, quick: 2 },
  tables: { full: 5, quick: 1 },
};
const HOP_REQUESTS = 1_000;
const WORKER_REQUESTS = 5_000;
const TABLE_ROWS = 200_000;
/** Maximum number of records that Lambda passes to one invocation. */
const MAX_HOP_REQUESTS = 10_000;

const HELP = `Usage: npm run bench -- [options]

Scores generated messages with generated models. For a small network, an encoder and a convnet it compares, in turns, the
first calls of fresh processes of batchscore, of its handler with rows alone and of a bare session with rows alone. The
scenario hops measures what a request costs with its calls of SQS, DynamoDB and S3, single and packed.
Two scenarios run only if they are named: worker measures that of the worker; tables scores a CSV and
a Parquet file beside a loop in Python, if PYTHON (default python3) has onnxruntime, pandas and pyarrow. A figure that
misses its target is bold, with the target beside it. It takes minutes; run it while nothing else does.

  --scenario NAME   measure only this one; repeat it or separate names by commas: ${NAMES.join(', ')}
  --quick           one round in place of ${ROUNDS.gains.full}: less time, and more noise
  --provider NAME   execution provider of ONNX Runtime, for all contestants (default cpu); targets are of cpu
  --messages N      at most N messages in one event (default: as in the scenario); of hops and worker as many, rows of tables
  --rounds N        turns of each contestant (default ${ROUNDS.gains.full}, of hops ${ROUNDS.hops.full}, of worker ${ROUNDS.worker.full})
  --results PATH    where the JSON is written (default bench/results/latest.json)
  --json            print the JSON instead of Markdown tables
  --help            show this
`;

const RESULTS = fileURLToPath(new URL('./results/latest.json', import.meta.url));

export interface BenchResults {
  readonly machine: Machine;
  readonly gains: readonly GainFigures[];
  readonly hops: readonly HopFigures[];
  readonly worker: readonly WorkerFigures[];
  readonly tables: readonly TableFigures[];
}

export async function bench(args: readonly string[], streams: Streams): Promise<number> {
  const options = parseOptions(args, {
    scenario: { type: 'string', multiple: true, default: [] },
    quick: { type: 'boolean', default: false },
    provider: { type: 'string', default: 'cpu' },
    messages: { type: 'string' },
    rounds: { type: 'string' },
    results: { type: 'string', default: RESULTS },
    json: { type: 'boolean', default: false },
  });
  const messages = wholeNumber('--messages', options.messages, 1, MAX_MESSAGES);
  const given = wholeNumber('--rounds', options.rounds, 1, MAX_ROUNDS);
  const rounds = (kind: keyof typeof ROUNDS): number => given ?? ROUNDS[kind][options.quick ? 'quick' : 'full'];
  const names = namesIn(options.scenario);
  const has = (name: string): boolean => names.includes(name);
  const say = (progress: string): void => void streams.stderr.write(`${progress}\n`);
  const turns = { maxMessages: messages ?? MAX_MESSAGES, rounds: rounds('gains'), provider: options.provider };
  const scenarios = SCENARIOS.filter(({ name }) => has(name));
  const hopRequests = Math.min(messages ?? HOP_REQUESTS, MAX_HOP_REQUESTS);
  const results: BenchResults = {
    machine: describeMachine(),
    gains: await measureGains(scenarios, turns, say),
    hops: has(HOPS) ? await measureHops(hopRequests, rounds('hops'), say) : [],
    worker: has(WORKER) ? await measureWorker(messages ?? WORKER_REQUESTS, rounds('worker'), say) : [],
    tables: has(TABLES) ? await measureTables(messages ?? TABLE_ROWS, rounds('tables'), say) : [],
  };
  const json = `${JSON.stringify(results)}\n`;
  await mkdir(dirname(options.results), { recursive: true });
  await writeFile(options.results, json);
  streams.stdout.write(options.json ? json : renderMarkdown(results));
  return 0;
}

/** @throws UsageError for an unknown name */
function namesIn(lists: readonly string[]): readonly string[] {
  const names = lists.length === 0 ? BY_DEFAULT : lists.flatMap((list) => list.split(','));
  const unknown = names.find((name) => !NAMES.includes(name));
  if (unknown === undefined) return names;
  throw new UsageError(`--scenario: expected one of ${NAMES.join(', ')}, got '${unknown}'`);
}

/** Limits for the speed of both calls, relative to rows alone in the handler and to bare ONNX Runtime. */
const MIN_OF_ROWS_ALONE = 0.98;
const MAX_HOP_MICROSECONDS = { none: 75, results: 20, both: { json: 8, binary: 5 } };
/** Maximum wall and processor time, relative to the Python loop. */
const MAX_TIMES_PYTHON = { csv: 1, parquet: 1.2 };

export function renderMarkdown({ machine, gains, hops, worker, tables }: BenchResults): string {
  const { cpu, cores, memoryBytes, platform, node, onnxruntime } = machine;
  const both = (values: readonly number[]): string => values.map((value) => `${figure(value)} ms`).join(', ');
  const seconds = ({ wall, cpu }: { wall: number; cpu: number }): string =>
    `${duration(1000 * wall)}, ${duration(1000 * cpu)}`;
  const ratios = (min: number | undefined, values: readonly number[]): string =>
    values.map((value) => atLeast(min, value)).join(', ');
  const sections = [
    `${cpu}, ${cores} cores, ${size(memoryBytes)}, ${platform}, Node ${node}, ONNX Runtime ${onnxruntime}. ` +
      'Medians of interleaved rounds. Bold: misses its target.',
    ...section('Calls of a fresh process, the first and the second', gains, {
      scenario: ({ scenario }) => scenario,
      messages: ({ messages }) => String(messages),
      batchscore: ({ batchscoreMs }) => both(batchscoreMs),
      'rows alone': ({ rowsAloneMs }) => both(rowsAloneMs),
      bare: ({ bareMs }) => both(bareMs),
      'over rows alone, over bare': ({ batchscoreMs, rowsAloneMs, bareMs }) =>
        [rowsAloneMs, bareMs]
          .map((others) => ratios(MIN_OF_ROWS_ALONE, [others[0] / batchscoreMs[0], others[1] / batchscoreMs[1]]))
          .join(', '),
    }),
    ...section('Hops', hops, {
      'results to': ({ store }) => store,
      ...PACKING,
      'CPU a request': (row) => atMost(maxHopMicroseconds(row), row.cpuMicroseconds, ' µs'),
      'wall a request': ({ wallMicroseconds }) => `${figure(wallMicroseconds)} µs`,
      'calls per thousand': ({ callsPerThousand }) => figure(callsPerThousand),
    }),
    ...section('Worker', worker, {
      ...PACKING,
      'CPU a request': (row) => atMost(maxWorkerMicroseconds(row), row.cpuMicroseconds, ' µs'),
      'requests/s': ({ requestsPerSecond }) => figure(requestsPerSecond),
    }),
    ...section('Tables', tables, {
      format: ({ format }) => format,
      rows: ({ rows }) => String(rows),
      'wall, CPU': ({ batchscore }) => seconds(batchscore),
      'loop in Python': ({ python }) => (python === undefined ? 'no Python' : seconds(python)),
      'times the loop': ({ format, batchscore, python }) =>
        python === undefined
          ? ''
          : [batchscore.wall / python.wall, batchscore.cpu / python.cpu]
              .map((times) => atMost(MAX_TIMES_PYTHON[format], times))
              .join(', '),
    }),
  ];
  return `${sections.join('\n\n')}\n`;
}

const PACKING: Columns<Packing> = {
  encoding: ({ encoding }) => encoding,
  'requests in a message': ({ requestsPerMessage }) => String(requestsPerMessage),
  'results in a message': ({ resultsPerMessage }) => String(resultsPerMessage),
};

function section<Row>(title: string, rows: readonly Row[], columns: Columns<Row>): string[] {
  return rows.length === 0 ? [] : [`## ${title}\n\n${table(rows, columns)}`];
}

function maxWorkerMicroseconds({ requestsPerMessage, resultsPerMessage }: WorkerFigures): number | undefined {
  if (requestsPerMessage > 1) return 12;
  return resultsPerMessage === 1 ? 250 : undefined;
}

function maxHopMicroseconds(row: HopFigures): number | undefined {
  if (row.store !== 'queue') return undefined;
  if (row.requestsPerMessage > 1) return MAX_HOP_MICROSECONDS.both[row.encoding];
  return MAX_HOP_MICROSECONDS[row.resultsPerMessage === 1 ? 'none' : 'results'];
}

if (import.meta.main) await runCommand(bench, HELP);
