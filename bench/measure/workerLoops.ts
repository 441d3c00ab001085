import { CONFIG_KEYS, CONFIG_PREFIX } from '../../lambda/settings.ts';
import type { Supply, Taken } from '../contestants/awsServer.ts';
import type { BareSettings } from '../contestants/bareLoop.ts';
import { type Child, openProcesses, type Processes } from '../harness/processes.ts';
import { median, takeTurns } from '../harness/turns.ts';
import { ENCODINGS, PACKINGS, type Packing, toPackedRecords } from '../workload/messages.ts';
import { createRepository } from '../workload/modelRepository.ts';
import { scenarioNamed } from '../workload/scenarios.ts';

/**
 * Measures the cost of a request in the worker, single and packed, with a small MLP. `BATCHSCORE_…` environment
 * variables tune the worker, so that settings can be compared.
 *
 * @param requests requests in a turn. Turns with packed messages have six times this number.
 */
export async function measureWorker(
  requests: number,
  rounds: number,
  say: (progress: string) => void,
): Promise<WorkerFigures[]> {
  const repository = await createRepository();
  await repository.addModel(scenarioNamed('mlp-small'));
  const figures: WorkerFigures[] = [];
  try {
    for (const [name, packing] of Object.entries(PACKINGS)) {
      for (const encoding of ENCODINGS) {
        say(`worker ${encoding}, packed: ${name}`);
        figures.push(await measureWay({ ...packing, encoding }, repository.directory, requests, rounds));
      }
    }
  } finally {
    await repository.remove();
  }
  return figures;
}

/** Medians of interleaved rounds. */
export interface WorkerFigures extends Packing {
  readonly worker: RequestFigures;
  /** Loop that only receives, sends and deletes, with the same client. */
  readonly bare: RequestFigures;
  /** CPU time of the worker divided by that of the loop, from each round. */
  readonly timesBare: number;
}

interface RequestFigures {
  readonly cpuMicroseconds: number;
  readonly requestsPerSecond: number;
}

/** Number of different bodies, which are repeated. */
const BODIES = 100;
/** Factor for packed messages. A hundred requests share a message, so a turn would otherwise have only a few calls. */
const PACKED_TIMES = 6;
const RESULT_MESSAGE_BYTES = 65_536;
/** V8 takes hundreds of calls to optimize the SDK. */
const WARM_UP_MS_FOR_A_ROUND = 600;

const SERVER = new URL('../contestants/awsServer.ts', import.meta.url);
const COUNTER = new URL('../contestants/cpuCounter.ts', import.meta.url);
const BARE_LOOP = new URL('../contestants/bareLoop.ts', import.meta.url);
const WORKER = new URL('../../lambda/worker.ts', import.meta.url);

/** Poller with its own server, so that it is idle during other contestants' turns. */
interface Contestant {
  readonly poller: Child;
  readonly server: Child;
}

interface Turn {
  readonly cpuMicroseconds: number;
  readonly wallMs: number;
  /** Total bytes of result bodies. */
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

/** @throws Error if a request was not answered with scores */
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
