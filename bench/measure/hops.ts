import { CONFIG_KEYS } from '../../lambda/settings.ts';
import type { Taken } from '../contestants/awsServer.ts';
import { type Child, openProcesses } from '../harness/processes.ts';
import { median, takeTurns } from '../harness/turns.ts';
import { ENCODINGS, PACKINGS, type Packing } from '../workload/messages.ts';
import { createRepository } from '../workload/modelRepository.ts';
import { scenarioNamed } from '../workload/scenarios.ts';

interface Way extends Packing {
  readonly store: 'queue' | 'table' | 'bucket';
}

/** Cost of a request in the handler's process, including AWS calls: medians of interleaved rounds. */
export interface HopFigures extends Way {
  readonly cpuMicroseconds: number;
  readonly wallMicroseconds: number;
  /** Number of calls to the result store. */
  readonly callsPerThousand: number;
}

/** Task of one turn: consecutive invocations of the handler. */
export interface HopTask extends Packing {
  readonly requests: number;
  /** Number of invocations, enough for several garbage collections. */
  readonly invocations: number;
}

/** Measurement of one turn, over all threads of the process. */
export interface HopTurn {
  readonly cpuMicroseconds: number;
  readonly wallMicroseconds: number;
}

const WAYS: readonly Omit<Way, 'encoding'>[] = [
  { store: 'queue', ...PACKINGS.none },
  { store: 'queue', ...PACKINGS.results },
  { store: 'queue', ...PACKINGS.both },
  { store: 'table', ...PACKINGS.none },
  { store: 'bucket', ...PACKINGS.none },
];
const SCENARIO = scenarioNamed('mlp-small');
const ROWS_IN_A_RUN = 512;
/** V8 takes hundreds of calls to optimize the code, and an event with packed messages has only two. */
const WARM_UP_MS_FOR_A_ROUND = 200;
/** Requests in a turn, enough for several garbage collections. */
const TURN_REQUESTS = 3_000;

const SERVER = new URL('../contestants/awsServer.ts', import.meta.url);
const HANDLER = new URL('../contestants/functionProcess.ts', import.meta.url);

/** @param requests requests in an event */
export async function measureHops(
  requests: number,
  rounds: number,
  say: (progress: string) => void,
): Promise<HopFigures[]> {
  const repository = await createRepository();
  await repository.addModel(SCENARIO, ROWS_IN_A_RUN);
  const processes = await openProcesses();
  try {
    const server = await processes.startServer(SERVER);
    const contestants = WAYS.flatMap((way) => {
      const handler = processes.start(HANDLER, {
        env: {
          ...processes.environmentFor(server.endpoint),
          [CONFIG_KEYS.modelsDirectory]: repository.directory,
          [CONFIG_KEYS.defaultModel]: SCENARIO.name,
          [CONFIG_KEYS.requestQueueUrls]: `${server.endpoint}/123456789012/requests`,
          [CONFIG_KEYS.results]: way.store,
          [CONFIG_KEYS.resultQueueUrl]: `${server.endpoint}/123456789012/results`,
          [CONFIG_KEYS.resultTable]: 'results',
          [CONFIG_KEYS.resultBucket]: 'results',
          [CONFIG_KEYS.resultsPerMessage]: String(way.resultsPerMessage),
        },
      });
      return ENCODINGS.map((encoding) => ({ handler, way: { ...way, encoding } }));
    });
    say(`hops: ${contestants.length} contestants, ${requests} requests in an event`);
    const invocations = Math.ceil(TURN_REQUESTS / requests);
    const turns = await takeTurns(
      contestants.map(
        ({ handler, way }) =>
          () =>
            turnOf(handler, server, { ...way, requests, invocations }),
      ),
      rounds,
      rounds * WARM_UP_MS_FOR_A_ROUND,
    );
    return contestants.map(({ way }, index) => {
      const ofWay = turns[index] ?? [];
      const perRequest = (pick: (turn: HopTurn & Taken) => number): number =>
        median(ofWay.map(pick)) / (invocations * requests);
      return {
        ...way,
        cpuMicroseconds: perRequest(({ cpuMicroseconds }) => cpuMicroseconds),
        wallMicroseconds: perRequest(({ wallMicroseconds }) => wallMicroseconds),
        callsPerThousand: 1_000 * perRequest(({ calls }) => calls),
      };
    });
  } finally {
    await processes.stop();
    await repository.remove();
  }
}

/** @throws Error if a request was not answered with scores */
async function turnOf(handler: Child, server: Child, task: HopTask): Promise<HopTurn & Taken> {
  const turn = await handler.ask<HopTurn>(task);
  // This reads the counts since the last question.
  const taken = await server.ask<Taken>({ messages: 0 });
  if (taken.errors > 0) throw new Error(`hops: expected scores, got ${taken.errors} calls with errors`);
  return { ...turn, ...taken };
}
