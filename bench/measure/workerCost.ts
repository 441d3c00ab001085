import { CONFIG_KEYS, CONFIG_PREFIX } from '../../lambda/settings.ts';
import type { Supply, Taken } from '../contestants/awsServer.ts';
import { type Child, openProcesses } from '../harness/processes.ts';
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

/** Medians of rounds. */
export interface WorkerFigures extends Packing {
  readonly cpuMicroseconds: number;
  readonly requestsPerSecond: number;
}

/** Number of different bodies, which are repeated. */
const BODIES = 100;
/** Factor for packed messages. A hundred requests share a message, so a turn would otherwise have only a few calls. */
const PACKED_TIMES = 6;
/** V8 takes hundreds of calls to optimize the SDK. */
const WARM_UP_MS_FOR_A_ROUND = 600;

const SERVER = new URL('../contestants/awsServer.ts', import.meta.url);
const COUNTER = new URL('../contestants/cpuCounter.ts', import.meta.url);
const WORKER = new URL('../../lambda/worker.ts', import.meta.url);

interface Turn {
  readonly cpuMicroseconds: number;
  readonly wallMs: number;
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
  const worker = await openWorker({
    ...Object.fromEntries(Object.entries(process.env).filter(([key]) => key.startsWith(CONFIG_PREFIX))),
    [CONFIG_KEYS.modelsDirectory]: modelsDirectory,
    [CONFIG_KEYS.resultsPerMessage]: String(way.resultsPerMessage),
  });
  try {
    await worker.turn({ bodies, messages });
    const [turns = []] = await takeTurns([() => worker.turn({ messages })], rounds, rounds * WARM_UP_MS_FOR_A_ROUND);
    return {
      ...way,
      cpuMicroseconds: median(turns.map(({ cpuMicroseconds }) => cpuMicroseconds)) / scored,
      requestsPerSecond: (1000 * scored) / median(turns.map(({ wallMs }) => wallMs)),
    };
  } finally {
    await worker.stop();
  }
}

/** Starts a worker and a server for its queues. @param settings environment variables of the worker */
export async function openWorker(settings: Readonly<Record<string, string | undefined>>) {
  const processes = await openProcesses();
  const server = await processes.startServer(SERVER);
  const account = `${server.endpoint}/123456789012`;
  const worker = processes.start(WORKER, {
    env: {
      ...processes.environmentFor(server.endpoint),
      ...settings,
      [CONFIG_KEYS.requestQueueUrls]: `${account}/requests`,
      [CONFIG_KEYS.resultQueueUrl]: `${account}/results`,
    },
    preload: COUNTER,
  });
  return {
    /** Waits until the worker has answered all messages. @throws Error if a request was not answered with scores */
    turn: (supply: Supply) => turnOf(worker, server, supply),
    stop: processes.stop,
  };
}

async function turnOf(worker: Child, server: Child, supply: Supply): Promise<Turn> {
  const [cpu, startedAt] = [await worker.ask<number>('cpu'), performance.now()];
  const { errors } = await Promise.race([server.ask<Taken>(supply), worker.died]);
  const wallMs = performance.now() - startedAt;
  if (errors > 0) throw new Error(`expected scores from the worker, got ${errors} calls with errors`);
  return { wallMs, cpuMicroseconds: (await worker.ask<number>('cpu')) - cpu };
}
