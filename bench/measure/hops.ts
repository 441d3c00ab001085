import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import type { Taken } from '../contestants/awsServer.ts';
import { type Child, openProcesses } from '../harness/processes.ts';
import { median, takeTurns } from '../harness/turns.ts';
import { ENCODINGS, PACKINGS, type Packing } from '../workload/messages.ts';
import { createRepository } from '../workload/modelRepository.ts';
import { scenarioNamed } from '../workload/scenarios.ts';

interface Way extends Packing {
  readonly lookUps?: LookUps | undefined;
  readonly store: 'queue' | 'table' | 'bucket';
}

/** Look-ups of a request's features in a table, by its customer. @default the request contains the features */
export type LookUps = 'together' | 'alone';

/** Cost of a request in the handler's process, including AWS calls: medians of interleaved rounds. */
export interface HopFigures extends Way {
  readonly cpuMicroseconds: number;
  readonly wallMicroseconds: number;
  /** Number of calls to the result store. */
  readonly callsPerThousand: number;
}

/** Task of one turn: consecutive invocations of the handler. */
export interface HopTask extends Packing, Pick<Way, 'lookUps'> {
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
  { store: 'queue', ...PACKINGS.results, lookUps: 'together' },
  { store: 'queue', ...PACKINGS.results, lookUps: 'alone' },
];
const EXAMPLE = JSON.stringify(new URL('../../examples/features/transform.ts', import.meta.url).pathname);
const TRANSFORMS: Readonly<Record<LookUps, string>> = {
  together: `export { decodeBatch } from ${EXAMPLE};`,
  alone: `import { decodeBatch } from ${EXAMPLE};
    const kept = new Map();
    const once = (name, make) => kept.get(name) ?? kept.set(name, make()).get(name);
    export const decode = async (body) => (await decodeBatch([body], { once }))[0];`,
};
const SCENARIO = scenarioNamed('mlp-small');
const ROWS_IN_A_RUN = 512;
/** V8 takes hundreds of calls to optimize the code, and an event with packed messages has only two. */
const WARM_UP_MS_FOR_A_ROUND = 200;
/** Requests in a turn, enough for several garbage collections. */
const TURN_REQUESTS = 3_000;

const SERVER = new URL('../contestants/awsServer.ts', import.meta.url);
const HANDLER = new URL('../contestants/functionProcess.ts', import.meta.url);

/**
 * Maximum number of separate look-ups. Each one is a call to the table, and thousands at once would wait for
 * connections longer than an invocation may take.
 */
const MAX_LOOK_UPS = 1_000;

/** @param max requests in an event. Events with table look-ups have fewer. */
export async function measureHops(max: number, rounds: number, say: (progress: string) => void): Promise<HopFigures[]> {
  const repository = await createRepository();
  await repository.addModel(SCENARIO);
  await repository.configure(SCENARIO, ROWS_IN_A_RUN);
  for (const [name, transform] of Object.entries(TRANSFORMS)) {
    await repository.addModel({ ...SCENARIO, name });
    await repository.configure({ ...SCENARIO, name }, ROWS_IN_A_RUN, { transform: 'transform.mjs' });
    await writeFile(join(repository.directory, name, 'transform.mjs'), transform);
  }
  const processes = await openProcesses();
  try {
    const server = await processes.startServer(SERVER);
    const contestants = WAYS.flatMap((way) => {
      const handler = processes.start(HANDLER, {
        env: {
          ...processes.environmentFor(server.endpoint),
          [CONFIG_KEYS.modelsDirectory]: repository.directory,
          [CONFIG_KEYS.defaultModel]: way.lookUps ?? SCENARIO.name,
          [CONFIG_KEYS.requestQueueUrls]: `${server.endpoint}/123456789012/requests`,
          [CONFIG_KEYS.results]: way.store,
          [CONFIG_KEYS.resultQueueUrl]: `${server.endpoint}/123456789012/results`,
          [CONFIG_KEYS.resultTable]: 'results',
          [CONFIG_KEYS.resultBucket]: 'results',
          [CONFIG_KEYS.resultsPerMessage]: String(way.resultsPerMessage),
        },
      });
      const encodings = way.lookUps === undefined ? ENCODINGS : (['json'] as const);
      return encodings.map((encoding) => ({ handler, way: { ...way, encoding } }));
    });
    say(`hops: ${contestants.length} contestants, ${max} requests in an event`);
    const tasks = contestants.map(({ way }): HopTask => {
      const requests = way.lookUps === undefined ? max : Math.min(max, MAX_LOOK_UPS);
      return { ...way, requests, invocations: Math.ceil(TURN_REQUESTS / requests) };
    });
    const turns = await takeTurns(
      contestants.map(
        ({ handler }, index) =>
          () =>
            turnOf(handler, server, tasks[index] as HopTask),
      ),
      rounds,
      rounds * WARM_UP_MS_FOR_A_ROUND,
    );
    return contestants.map(({ way }, index) => {
      const ofWay = turns[index] ?? [];
      const { requests, invocations } = tasks[index] as HopTask;
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
