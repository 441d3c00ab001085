import { parseOptions, runCommand, type Streams, UsageError, wholeNumber } from '../cli/arguments.ts';
import { CONFIG_KEYS, CONFIG_PREFIX } from '../lambda/settings.ts';
import type { Supply, Taken } from './contestants/awsServer.ts';
import type { BareSettings } from './contestants/bareLoop.ts';
import { type Child, openProcesses, type Processes } from './harness/processes.ts';
import { atMost, figure, table } from './harness/report.ts';
import { median, takeTurns } from './harness/turns.ts';
import { ENCODINGS, PACKINGS, type Packing, toPackedRecords } from './workload/messages.ts';
import { createRepository } from './workload/modelRepository.ts';
import { scenarioNamed } from './workload/scenarios.ts';

const NAMES = Object.keys(PACKINGS).join(', ');
const HELP = `Usage: npm run bench:worker -- [options]

What a request costs the worker, single and packed, with a small MLP: the CPU of its process, in
turns with that of a loop that only receives, sends and deletes, with the same client. A server that
answers as SQS does runs in a process of its own, over TLS, all on this machine. It takes some two
minutes; run it while nothing else does. BATCHSCORE_… environment variables tune the worker, so that
settings can be compared.

  --packed LIST  what shares messages: ${NAMES}, comma-separated (default all of these)
  --requests N   requests in a turn, six times as many where they are packed (default 5000)
  --rounds N     turns of each contestant, after its warm-up (default 7)
  --json         print JSON instead of a Markdown table
  --help         show this
`;

export async function benchWorker(args: readonly string[], streams: Streams): Promise<number> {
  const options = parseOptions(args, {
    packed: { type: 'string', default: Object.keys(PACKINGS).join(',') },
    requests: { type: 'string', default: '5000' },
    rounds: { type: 'string', default: '7' },
    json: { type: 'boolean', default: false },
  });
  const packings = options.packed.split(',');
  if (!packings.every(isPacking)) throw new UsageError(`--packed: expected ${NAMES}, got '${options.packed}'`);
  const requests = wholeNumber('--requests', options.requests, 100, 1_000_000);
  const rounds = wholeNumber('--rounds', options.rounds, 1, 1_000);
  const repository = await createRepository();
  await repository.addModel(scenarioNamed('mlp-small'));
  const figures: WorkerFigures[] = [];
  try {
    for (const packing of packings) {
      for (const encoding of ENCODINGS) {
        streams.stderr.write(`${encoding}, packed: ${packing}\n`);
        const way = { ...PACKINGS[packing], encoding };
        figures.push(await measureWay(way, repository.directory, requests, rounds));
      }
    }
  } finally {
    await repository.remove();
  }
  streams.stdout.write(`${options.json ? JSON.stringify(figures) : workerTable(figures)}\n`);
  return 0;
}

function isPacking(text: string): text is keyof typeof PACKINGS {
  return Object.hasOwn(PACKINGS, text);
}

/** Medians of interleaved rounds. */
export interface WorkerFigures extends Packing {
  readonly worker: RequestFigures;
  /** Of a loop that receives, sends and deletes with the same client, and does nothing else. */
  readonly bare: RequestFigures;
  /** The worker's CPU over that of the loop, round by round. */
  readonly timesBare: number;
}

interface RequestFigures {
  readonly cpuMicroseconds: number;
  readonly requestsPerSecond: number;
}

/** Bodies are given again and again. */
const BODIES = 100;
/** Where a hundred requests share a message, a turn of few would be a few calls. */
const PACKED_TIMES = 6;
const RESULT_MESSAGE_BYTES = 65_536;
/** V8 takes hundreds of calls to optimize the SDK. */
const WARM_UP_MS_FOR_A_ROUND = 600;

const SERVER = new URL('./contestants/awsServer.ts', import.meta.url);
const COUNTER = new URL('./contestants/cpuCounter.ts', import.meta.url);
const BARE_LOOP = new URL('./contestants/bareLoop.ts', import.meta.url);
const WORKER = new URL('../lambda/worker.ts', import.meta.url);

/** Polls the queue of a server of its own, so that nobody has anything to do while another has its turn. */
interface Contestant {
  readonly poller: Child;
  readonly server: Child;
}

interface Turn {
  readonly cpuMicroseconds: number;
  readonly wallMs: number;
  /** Of the bodies of results. */
  readonly bytes: number;
}

async function measureWay(
  way: Packing,
  modelsDirectory: string,
  requests: number,
  rounds: number,
): Promise<WorkerFigures> {
  const { requestsPerMessage } = way;
  const inTurn = requestsPerMessage === 1 ? requests : requests * PACKED_TIMES;
  const messages = Math.ceil(inTurn / requestsPerMessage);
  const bodies = toPackedRecords(BODIES * requestsPerMessage, way).map(({ body }) => body);
  const scored = messages * requestsPerMessage;
  const processes = await openProcesses();
  try {
    const worker = await compete(processes, WORKER, ({ requestQueue, resultQueue }) => ({
      env: {
        ...Object.fromEntries(Object.entries(process.env).filter(([key]) => key.startsWith(CONFIG_PREFIX))),
        [CONFIG_KEYS.modelsDirectory]: modelsDirectory,
        [CONFIG_KEYS.requestQueueUrls]: requestQueue,
        [CONFIG_KEYS.resultQueueUrl]: resultQueue,
        [CONFIG_KEYS.resultsPerMessage]: String(way.resultsPerMessage),
      },
    }));
    const { bytes } = await turnOf(worker, { bodies, messages });
    const resultBytes = bytes / scored;
    const bareLoop = await compete(processes, BARE_LOOP, (queues) => {
      const settings: BareSettings = {
        ...queues,
        results: requestsPerMessage,
        resultBytes: Math.floor(resultBytes),
        resultsPerMessage: way.resultsPerMessage === 1 ? 1 : Math.floor(RESULT_MESSAGE_BYTES / (resultBytes + 1)),
      };
      return { args: [JSON.stringify(settings)] };
    });
    await turnOf(bareLoop, { bodies, messages });
    const turns = await takeTurns(
      [worker, bareLoop].map((one) => () => turnOf(one, { messages })),
      rounds,
      rounds * WARM_UP_MS_FOR_A_ROUND,
    );
    return { ...way, ...figuresOf(turns, scored) };
  } finally {
    await processes.stop();
  }
}

type Queues = Pick<BareSettings, 'requestQueue' | 'resultQueue'>;

async function compete(
  processes: Processes,
  script: URL,
  start: (queues: Queues) => { readonly args?: readonly string[]; readonly env?: Readonly<Record<string, string>> },
): Promise<Contestant> {
  const server = await processes.startServer(SERVER);
  const account = `${server.endpoint}/123456789012`;
  const { args, env } = start({ requestQueue: `${account}/requests`, resultQueue: `${account}/results` });
  const poller = processes.start(script, {
    args,
    env: { ...processes.environmentFor(server.endpoint), ...env },
    preload: COUNTER,
  });
  return { poller, server };
}

/** @throws Error when a request was not answered with scores */
async function turnOf({ poller, server }: Contestant, supply: Supply): Promise<Turn> {
  const [cpu, startedAt] = [await poller.ask<number>('cpu'), performance.now()];
  const { bytes, errors } = await Promise.race([server.ask<Taken>(supply), poller.died]);
  const wallMs = performance.now() - startedAt;
  if (errors > 0) throw new Error(`expected scores from the worker, got ${errors} calls with errors`);
  return { wallMs, bytes, cpuMicroseconds: (await poller.ask<number>('cpu')) - cpu };
}

function figuresOf([worker = [], bare = []]: readonly Turn[][], requests: number): Omit<WorkerFigures, keyof Packing> {
  const figures = (some: readonly Turn[]): RequestFigures => ({
    cpuMicroseconds: median(some.map(({ cpuMicroseconds }) => cpuMicroseconds)) / requests,
    requestsPerSecond: (1000 * requests) / median(some.map(({ wallMs }) => wallMs)),
  });
  const times = worker.map((turn, round) => turn.cpuMicroseconds / (bare[round] as Turn).cpuMicroseconds);
  return { worker: figures(worker), bare: figures(bare), timesBare: median(times) };
}

const MAX_TIMES_BARE = 1.15;

/** A row for each way that requests and results travel, with what a request must cost at most. */
export function workerTable(rows: readonly WorkerFigures[]): string {
  return table(rows, {
    encoding: (row) => row.encoding,
    'requests in a message': (row) => String(row.requestsPerMessage),
    'results in a message': (row) => String(row.resultsPerMessage),
    'CPU a request': (row) => atMost(maxMicroseconds(row), row.worker.cpuMicroseconds, ' µs'),
    'bare loop': (row) => figure(row.bare.cpuMicroseconds, ' µs'),
    'times the bare loop': (row) => atMost(MAX_TIMES_BARE, row.timesBare),
    'requests/s': (row) => figure(row.worker.requestsPerSecond),
  });
}

function maxMicroseconds({ requestsPerMessage, resultsPerMessage }: WorkerFigures): number | undefined {
  if (requestsPerMessage > 1) return 12;
  return resultsPerMessage === 1 ? 250 : undefined;
}

if (import.meta.main) await runCommand(benchWorker, HELP);
