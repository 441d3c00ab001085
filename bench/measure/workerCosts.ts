import { fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CONFIG_KEYS, CONFIG_PREFIX } from '../../lambda/settings.ts';
import { microseconds, type Target, table } from '../report/markdownTable.ts';

import { type Certificate, createCertificate } from '../workload/certificate.ts';
import { ENCODINGS, type Encoding, toPackedRecords } from '../workload/messages.ts';
import { createTemporaryRepository } from '../workload/modelRepository.ts';
import { scenarioNamed } from '../workload/scenarios.ts';
import { median } from './contest.ts';

/** How requests and results travel. */
interface Way {
  readonly encoding: Encoding;
  readonly requestsPerMessage: number;
  readonly resultsPerMessage: 1 | 'fill';
}

/** Medians of interleaved rounds. */
export interface WorkerFigures extends Way {
  /** What a request takes of the worker. */
  readonly worker: TurnFigures;
  /** Of a loop that receives, sends and deletes, with the same client, and with the SDK's as it comes. */
  readonly bare: TurnFigures;
  readonly plain: TurnFigures;
  /** The worker's CPU over that of either loop, round by round. */
  readonly timesBare: number;
  readonly timesPlain: number;
}

interface TurnFigures {
  readonly cpuMicroseconds: number;
  readonly requestsPerSecond: number;
}

interface WorkerBenchOptions {
  readonly packings: readonly Packing[];
  /** In a turn. Where a hundred share a message, a turn has six times as many: it would be a few calls else. */
  readonly requests: number;
  readonly rounds: number;
  readonly say: (progress: string) => void;
}

/** What is packed. */
export const PACKINGS = {
  none: { requestsPerMessage: 1, resultsPerMessage: 1 },
  results: { requestsPerMessage: 1, resultsPerMessage: 'fill' },
  both: { requestsPerMessage: 100, resultsPerMessage: 'fill' },
} as const satisfies Readonly<Record<string, Omit<Way, 'encoding'>>>;

export type Packing = keyof typeof PACKINGS;
const SCENARIO = 'mlp-small';
/** Bodies are given again and again. */
const BODIES = 100;
const PACKED_TIMES = 6;
const BARE_LOOPS = 8;
const RESULT_MESSAGE_BYTES = 65_536;
/** V8 takes hundreds of calls to optimize the SDK. */
const WARM_UP_MS_FOR_A_ROUND = 600;

export async function measureWorker(options: WorkerBenchOptions): Promise<WorkerFigures[]> {
  const repository = await createTemporaryRepository();
  const certificate = createCertificate();
  const certificateFile = join(repository.directory, 'certificate.pem');
  await writeFile(certificateFile, certificate.cert);
  await repository.addModel(scenarioNamed(SCENARIO));
  const figures: WorkerFigures[] = [];
  try {
    for (const packing of options.packings) {
      for (const encoding of ENCODINGS) {
        const way = { ...PACKINGS[packing], encoding };
        figures.push(await measureWay(way, { certificate, certificateFile }, repository.directory, options));
      }
    }
    return figures;
  } finally {
    await repository.remove();
  }
}

interface Contestant {
  readonly poller: Poller;
  readonly server: QueueServer;
}

interface Turn {
  readonly cpuMicroseconds: number;
  readonly wallMs: number;
}

/** Each contestant has a server of its own, and none has anything to do while another has its turn. */
async function measureWay(
  way: Way,
  tls: { readonly certificate: Certificate; readonly certificateFile: string },
  modelsDirectory: string,
  { requests, rounds, say }: WorkerBenchOptions,
): Promise<WorkerFigures> {
  const { encoding, requestsPerMessage, resultsPerMessage } = way;
  say(`${encoding}, requests in a message: ${requestsPerMessage}, results in a message: ${resultsPerMessage}`);
  const inTurn = requestsPerMessage === 1 ? requests : requests * PACKED_TIMES;
  const messages = Math.ceil(inTurn / requestsPerMessage);
  const records = toPackedRecords(scenarioNamed(SCENARIO), BODIES * requestsPerMessage, encoding, requestsPerMessage);
  const supply = { bodies: records.map(({ body }) => body), messages };
  const running: { stop(): Promise<void> }[] = [];
  const compete = async (start: (place: Place) => Poller): Promise<Contestant> => {
    const server = await startQueueServer(tls.certificate);
    running.push(server);
    const poller = start({ endpoint: server.endpoint, certificateFile: tls.certificateFile });
    running.unshift(poller);
    return { poller, server };
  };
  const worker = () =>
    compete((place) =>
      startWorkerProcess(place, {
        [CONFIG_KEYS.modelsDirectory]: modelsDirectory,
        [CONFIG_KEYS.resultsPerMessage]: String(resultsPerMessage),
      }),
    );
  try {
    const ours = await worker();
    const resultBytes = (await bytesOfResults(ours, supply)) / (messages * requestsPerMessage);
    const settings = {
      loops: BARE_LOOPS,
      results: requestsPerMessage,
      resultBytes: Math.floor(resultBytes),
      resultsPerMessage: resultsPerMessage === 1 ? 1 : Math.floor(RESULT_MESSAGE_BYTES / (resultBytes + 1)),
    };
    const bare = await compete((place) => startBareLoop(place, { ...settings, client: 'lean' }));
    const plain = await compete((place) => startBareLoop(place, { ...settings, client: 'plain' }));
    const turns = await takeTurns([ours, bare, plain], supply, rounds);
    return { ...way, ...figuresOf(turns, messages * requestsPerMessage) };
  } finally {
    for (const one of running) await one.stop();
  }
}

async function bytesOfResults({ poller, server }: Contestant, supply: Supply): Promise<number> {
  const { bytes, errors } = await Promise.race([server.untilDeleted(supply), poller.died]);
  if (errors > 0) throw new Error(`expected scores from the worker, got ${errors} calls with errors`);
  return bytes;
}

/** Every contestant has a turn in each round, a different one first each time. */
async function takeTurns(contestants: readonly Contestant[], supply: Supply, rounds: number): Promise<Turn[][]> {
  const again = { messages: supply.messages };
  const turn = async ({ poller, server }: Contestant, supply: Supply): Promise<Turn> => {
    const [cpu, startedAt] = [await poller.cpuMicroseconds(), performance.now()];
    await Promise.race([server.untilDeleted(supply), poller.died]);
    const wallMs = performance.now() - startedAt;
    return { wallMs, cpuMicroseconds: (await poller.cpuMicroseconds()) - cpu };
  };
  for (const one of contestants) {
    const until = performance.now() + rounds * WARM_UP_MS_FOR_A_ROUND;
    await turn(one, supply);
    while (performance.now() < until) await turn(one, again);
  }
  const turns = contestants.map((): Turn[] => []);
  for (let round = 0; round < rounds; round++) {
    for (let place = 0; place < contestants.length; place++) {
      const index = (place + round) % contestants.length;
      turns[index]?.push(await turn(contestants[index] as Contestant, again));
    }
  }
  return turns;
}

function figuresOf(turns: readonly (readonly Turn[])[], requests: number): Omit<WorkerFigures, keyof Way> {
  const [worker = [], bare = [], plain = []] = turns;
  const figures = (some: readonly Turn[]): TurnFigures => ({
    cpuMicroseconds: median(some.map(({ cpuMicroseconds }) => cpuMicroseconds)) / requests,
    requestsPerSecond: (1000 * requests) / median(some.map(({ wallMs }) => wallMs)),
  });
  const times = (others: readonly Turn[]): number =>
    median(worker.map((turn, round) => turn.cpuMicroseconds / (others[round] as Turn).cpuMicroseconds));
  return {
    worker: figures(worker),
    bare: figures(bare),
    plain: figures(plain),
    timesBare: times(bare),
    timesPlain: times(plain),
  };
}

/** What a bare loop does. */
export interface BareSettings {
  /** The SDK's client as it comes, or as batchscore makes it. */
  readonly client: 'plain' | 'lean';
  /** At a time. */
  readonly loops: number;
  /** To each message that is received. */
  readonly results: number;
  readonly resultsPerMessage: number;
  /** Of one result. */
  readonly resultBytes: number;
}

/** A process that polls a queue. */
interface Poller {
  /** Microseconds of CPU that all its threads have taken so far. */
  cpuMicroseconds(): Promise<number>;
  /** Rejects when the process ends by itself. */
  readonly died: Promise<never>;
  stop(): Promise<void>;
}

/** Where its queues are. */
interface Place {
  readonly endpoint: string;
  readonly certificateFile: string;
}

const COUNTER = new URL('../contestants/cpuCounter.ts', import.meta.url);
const BARE_LOOP = new URL('../contestants/bareLoop.ts', import.meta.url);
const WORKER = new URL('../../lambda/worker.ts', import.meta.url);

export function requestQueueAt(endpoint: string): string {
  return `${endpoint}/123456789012/requests`;
}

export function resultQueueAt(endpoint: string): string {
  return `${endpoint}/123456789012/results`;
}

function startBareLoop(place: Place, settings: BareSettings): Poller {
  return start(BARE_LOOP, [place.endpoint, JSON.stringify(settings)], place, {});
}

/** @param variables of the worker, beside those that say where its queues are, and those that this process has */
function startWorkerProcess(place: Place, variables: Readonly<Record<string, string>>): Poller {
  const inherited = Object.entries(process.env).filter(([key]) => key.startsWith(CONFIG_PREFIX));
  return start(WORKER, [], place, {
    ...Object.fromEntries(inherited),
    [CONFIG_KEYS.requestQueueUrls]: requestQueueAt(place.endpoint),
    [CONFIG_KEYS.resultQueueUrl]: resultQueueAt(place.endpoint),
    ...variables,
  });
}

function start(
  script: URL,
  args: readonly string[],
  { endpoint, certificateFile }: Place,
  variables: Readonly<Record<string, string | undefined>>,
): Poller {
  const child = fork(script, args, {
    execArgv: ['--import', COUNTER.href],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env: {
      PATH: process.env.PATH,
      NODE_EXTRA_CA_CERTS: certificateFile,
      AWS_ENDPOINT_URL_SQS: endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'bench',
      AWS_SECRET_ACCESS_KEY: 'bench',
      AWS_SESSION_TOKEN: 'bench',
      ...variables,
    },
  });
  const exited = once(child, 'exit');
  const died = exited.then(([code]): never => {
    throw new Error(`expected ${script.pathname} to go on, it ended with code ${code}`);
  });
  died.catch(() => {});
  return {
    died,
    async cpuMicroseconds() {
      child.send('cpu');
      const [microseconds] = await Promise.race([once(child, 'message'), died]);
      return microseconds;
    },
    async stop() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** Messages that a queue gives to who polls it. */
export interface Supply {
  /** Given in turn. @default those of the last time */
  readonly bodies?: readonly string[];
  readonly messages: number;
}

/** What the queues were told until all messages were deleted. */
export interface Taken {
  /** Of the bodies of results. */
  bytes: number;
  /** Calls that held an error in place of scores. */
  errors: number;
}

/** SQS in a process of its own. */
interface QueueServer {
  readonly endpoint: string;
  /** Puts messages on the request queue, and waits until all are deleted. */
  untilDeleted(supply: Supply): Promise<Taken>;
  stop(): Promise<void>;
}

const SCRIPT = new URL('../contestants/queueServer.ts', import.meta.url);

async function startQueueServer(certificate: Certificate): Promise<QueueServer> {
  const child = fork(SCRIPT);
  child.send(certificate);
  const [{ port }] = await once(child, 'message');
  return {
    endpoint: `https://127.0.0.1:${port}`,
    async untilDeleted(supply) {
      child.send(supply);
      const [taken] = await once(child, 'message');
      return taken;
    },
    async stop() {
      child.disconnect();
      await once(child, 'exit');
    },
  };
}

const MAX_TIMES_BARE = 1.15;
const MAX_SINGLE_MICROSECONDS = 250;
const MAX_PACKED_BOTH_MICROSECONDS = 12;

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
    const max = maxMicroseconds(row);
    return [
      {
        target: `${way}: at most ${MAX_TIMES_BARE} times the bare loop`,
        figure: `${row.timesBare.toFixed(2)} times`,
        reached: row.timesBare <= MAX_TIMES_BARE,
      },
      ...(max === undefined
        ? []
        : [
            {
              target: `${way}: at most ${max} µs CPU a request`,
              figure: microseconds(cpuMicroseconds),
              reached: cpuMicroseconds <= max,
            },
          ]),
    ];
  });
}

function wayOf({ requestsPerMessage, resultsPerMessage }: WorkerFigures): string {
  if (requestsPerMessage > 1) return 'packed both ways';
  return resultsPerMessage === 1 ? 'single messages' : 'packed results';
}

function maxMicroseconds({ requestsPerMessage, resultsPerMessage }: WorkerFigures): number | undefined {
  if (requestsPerMessage > 1) return MAX_PACKED_BOTH_MICROSECONDS;
  return resultsPerMessage === 1 ? MAX_SINGLE_MICROSECONDS : undefined;
}
