import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CONFIG_KEYS } from '../../lambda/configKeys.ts';
import { type Place, type Poller, startBareLoop, startWorkerProcess } from '../contestants/startPollers.ts';
import { type QueueServer, type Supply, startQueueServer } from '../contestants/startQueueServer.ts';
import { type Certificate, createCertificate } from '../workload/certificate.ts';
import { ENCODINGS, type Encoding } from '../workload/messages.ts';
import { createTemporaryRepository } from '../workload/modelRepository.ts';
import { toPackedRecords } from '../workload/packing.ts';
import { scenarioNamed } from '../workload/scenarios.ts';
import { median } from './median.ts';

/** How requests and results travel. */
export interface Way {
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

export interface TurnFigures {
  readonly cpuMicroseconds: number;
  readonly requestsPerSecond: number;
}

export interface WorkerBenchOptions {
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
