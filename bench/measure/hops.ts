import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type AwsServer, type Delivered, startAwsServer } from '../contestants/startAwsServer.ts';
import { type HopConfig, type HopHandler, type HopTurn, startHopHandler } from '../contestants/startHopHandler.ts';
import { createCertificate } from '../workload/certificate.ts';
import { ENCODINGS, type Encoding } from '../workload/messages.ts';
import { createTemporaryRepository } from '../workload/modelRepository.ts';
import type { RequestsPerMessage } from '../workload/packing.ts';
import { scenarioNamed } from '../workload/scenarios.ts';
import { dollarsPerMillion, sqsDollars } from './dollars.ts';
import { median } from './median.ts';

/** What a request costs with its hops, in the handler's process: medians of interleaved rounds. */
export interface HopFigures {
  readonly store: HopConfig['store'];
  readonly encoding: Encoding;
  readonly requestsPerMessage: RequestsPerMessage;
  readonly resultsPerMessage: HopConfig['resultsPerMessage'];
  readonly cpuMicroseconds: number;
  readonly wallMicroseconds: number;
  /** Of the handler to its result store. */
  readonly callsPerThousand: number;
  /** Of a million requests, everything included, and the part of SQS in it. */
  readonly dollars: number;
  readonly sqsDollars: number;
  /** The median of an event of one request, in milliseconds; only where neither requests nor results are packed. */
  readonly loneMs?: number;
}

interface Case extends HopConfig {
  readonly requestsPerMessage: RequestsPerMessage;
}

const CASES: readonly Case[] = [
  { store: 'queue', resultsPerMessage: 1, requestsPerMessage: 1 },
  { store: 'queue', resultsPerMessage: 'fill', requestsPerMessage: 1 },
  { store: 'queue', resultsPerMessage: 'fill', requestsPerMessage: 100 },
  { store: 'queue', resultsPerMessage: 'fill', requestsPerMessage: 'fill' },
  { store: 'table', resultsPerMessage: 1, requestsPerMessage: 1 },
  { store: 'table', resultsPerMessage: 1, requestsPerMessage: 100 },
  { store: 'bucket', resultsPerMessage: 1, requestsPerMessage: 1 },
  { store: 'bucket', resultsPerMessage: 1, requestsPerMessage: 100 },
];
const SCENARIO = 'mlp-small';
const ROWS_IN_A_RUN = 512;
export const HOP_REQUESTS = 1_000;
export const HOP_ROUNDS = 15;
/** V8 takes hundreds of calls to optimize the SDK, and with packed messages there are two in an event. */
const WARM_UP_MS_FOR_A_ROUND = 200;
/** Requests in a turn, in events of so many: long enough for several garbage collections. */
const TURN_REQUESTS = 3_000;
const LONE_INVOCATIONS = 100;

interface Contestant extends Case {
  readonly encoding: Encoding;
  readonly handler: HopHandler;
}

/** @param requests in an event */
export async function measureHops(
  requests: number,
  rounds: number,
  say: (progress: string) => void,
): Promise<HopFigures[]> {
  const repository = await createTemporaryRepository();
  const certificate = createCertificate();
  const certificateFile = join(repository.directory, 'certificate.pem');
  await writeFile(certificateFile, certificate.cert);
  const scenario = scenarioNamed(SCENARIO);
  await repository.addModel(scenario);
  await repository.configure(scenario, ROWS_IN_A_RUN);
  const server = await startAwsServer(certificate);
  const handlers: HopHandler[] = [];
  try {
    const contestants: Contestant[] = [];
    for (const one of CASES) {
      const handler = await startHopHandler(one, repository.directory, server.endpoint, certificateFile);
      handlers.push(handler);
      contestants.push(...ENCODINGS.map((encoding) => ({ ...one, encoding, handler })));
    }
    return await takeHopTurns(contestants, server, requests, rounds, say);
  } finally {
    for (const handler of handlers) await handler.stop();
    await server.stop();
    await repository.remove();
  }
}

/** Every contestant has a turn in each round, a different one first each time. */
async function takeHopTurns(
  contestants: readonly Contestant[],
  server: AwsServer,
  requests: number,
  rounds: number,
  say: (progress: string) => void,
): Promise<HopFigures[]> {
  const invocations = Math.ceil(TURN_REQUESTS / requests);
  const turn = async (one: Contestant): Promise<Turn> => {
    const { encoding, requestsPerMessage } = one;
    await server.takeDelivered();
    const taken = await one.handler.turn({
      scenario: SCENARIO,
      requests,
      encoding,
      requestsPerMessage,
      invocations,
    });
    return { ...taken, invocations, delivered: await server.takeDelivered() };
  };
  const turns = contestants.map((): Turn[] => []);
  say(`hops: warming up, ${contestants.length} contestants`);
  for (const one of contestants) {
    const until = performance.now() + rounds * WARM_UP_MS_FOR_A_ROUND;
    do await turn(one);
    while (performance.now() < until);
  }
  for (let round = 0; round < rounds; round++) {
    say(`hops: round ${round + 1} of ${rounds}`);
    for (let place = 0; place < contestants.length; place++) {
      const index = (place + round) % contestants.length;
      turns[index]?.push(await turn(contestants[index] as Contestant));
    }
  }
  const figures: HopFigures[] = [];
  for (const [index, one] of contestants.entries()) {
    const lone = isSingle(one) ? { loneMs: await measureLone(one) } : {};
    figures.push({ ...figuresOf(one, turns[index] as Turn[], requests), ...lone });
  }
  return figures;
}

interface Turn extends HopTurn {
  readonly invocations: number;
  readonly delivered: Delivered;
}

function figuresOf({ handler: _, ...one }: Contestant, turns: readonly Turn[], requests: number): HopFigures {
  const [first] = turns as [Turn];
  if (first.delivered.errors > 0)
    throw new Error(`hops: expected scores, got ${first.delivered.errors} calls with errors`);
  const perRequest = (total: number): number => total / (first.invocations * requests);
  const perEvent = mapValues(first.delivered, (total) => total / first.invocations);
  const wallMicroseconds = perRequest(median(turns.map((turn) => turn.wallMicroseconds)));
  const event = {
    requests,
    messageBytes: first.messageBytes,
    delivered: perEvent,
    microsecondsPerRequest: wallMicroseconds,
  };
  return {
    ...one,
    cpuMicroseconds: perRequest(median(turns.map((turn) => turn.cpuMicroseconds))),
    wallMicroseconds,
    callsPerThousand: 1_000 * perRequest(first.delivered.calls),
    dollars: dollarsPerMillion(event),
    sqsDollars: sqsDollars(event),
  };
}

function mapValues({ ...values }: Delivered, map: (value: number) => number): Delivered {
  const entries = Object.entries(values).map(([name, value]) => [name, map(value)]);
  return { ...values, ...Object.fromEntries(entries) };
}

function isSingle({ requestsPerMessage, resultsPerMessage }: Case): boolean {
  return requestsPerMessage === 1 && resultsPerMessage === 1;
}

async function measureLone({ handler, encoding }: Contestant): Promise<number> {
  const { invocationsMs } = await handler.turn({
    scenario: SCENARIO,
    requests: 1,
    encoding,
    requestsPerMessage: 1,
    invocations: LONE_INVOCATIONS,
  });
  return median(invocationsMs);
}
