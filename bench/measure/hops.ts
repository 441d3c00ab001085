import { fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import prices from '../../infra/prices.json' with { type: 'json' };
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { type Certificate, createCertificate } from '../workload/certificate.ts';
import { billedSends, ENCODINGS, type Encoding, type RequestsPerMessage } from '../workload/messages.ts';
import { createTemporaryRepository } from '../workload/modelRepository.ts';
import { scenarioNamed } from '../workload/scenarios.ts';
import { median } from './contest.ts';

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
    return await takeTurnsOfHops(contestants, server, requests, rounds, say);
  } finally {
    for (const handler of handlers) await handler.stop();
    await server.stop();
    await repository.remove();
  }
}

/** Every contestant has a turn in each round, a different one first each time. */
async function takeTurnsOfHops(
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

/** What is known of one event, from which a million requests are reckoned up. */
export interface Event {
  readonly requests: number;
  /** Of the messages that hold them. */
  readonly messageBytes: readonly number[];
  /** What their results came to. */
  readonly delivered: Delivered;
  readonly microsecondsPerRequest: number;
}

const MILLION = 1_000_000;
const MESSAGES_PER_CALL = 10;
/** As in docs/operations.md: arm64, 1,769 MB, batches of 100 messages, 100 ms a batch or what was measured. */
const FUNCTION_GB = 1769 / 1024;
const BATCH_MESSAGES = 100;
const MIN_BATCH_SECONDS = 0.1;
/** What SQS hands over at most. */
const BATCH_BYTES = 6_000_000;

/** US dollars for a million requests, scored and their results read. */
export function dollarsPerMillion(event: Event): number {
  return sqsDollars(event) + lambdaDollars(event) + storeDollars(event);
}

/** The queues' part: each message is sent, received and deleted, ten in a call. */
export function sqsDollars({ requests, messageBytes, delivered }: Event): number {
  const queued = (chunks: number, messages: number): number => 2 * chunks + messages / MESSAGES_PER_CALL;
  const results = delivered.chunks === 0 ? 0 : queued(delivered.chunks, delivered.messages);
  const billed = queued(billedSends(messageBytes), messageBytes.length) + results;
  return (billed / requests) * prices.sqsStandardMillionRequests;
}

function lambdaDollars({ requests, messageBytes, microsecondsPerRequest }: Event): number {
  const bytesPerMessage = messageBytes.reduce((sum, bytes) => sum + bytes, 0) / messageBytes.length;
  const batchMessages = Math.min(BATCH_MESSAGES, BATCH_BYTES / bytesPerMessage);
  const batchRequests = (batchMessages * requests) / messageBytes.length;
  const seconds = Math.max(MIN_BATCH_SECONDS, (batchRequests * microsecondsPerRequest) / MILLION);
  const invocation = seconds * FUNCTION_GB * prices.lambdaArmGbSecond + prices.lambdaMillionRequests / MILLION;
  return (MILLION / batchRequests) * invocation;
}

/** Of the table each result is written and read, of the bucket each object is written. */
function storeDollars({ requests, delivered: { writeUnits, readUnits, objects } }: Event): number {
  const dollars =
    (writeUnits * prices.dynamodbMillionWrites) / MILLION +
    (readUnits * prices.dynamodbMillionReads) / MILLION +
    (objects * prices.s3ThousandPuts) / 1_000;
  return (dollars / requests) * MILLION;
}

/** Where results go, and how many share a message of the queue. */
interface HopConfig {
  readonly store: 'queue' | 'table' | 'bucket';
  readonly resultsPerMessage: 1 | 'fill';
}

/** What a turn invokes the handler with, so many times, one after the other. */
export interface HopTask {
  readonly scenario: string;
  /** In an event. */
  readonly requests: number;
  readonly encoding: Encoding;
  readonly requestsPerMessage: RequestsPerMessage;
  readonly invocations: number;
}

/** What a turn took, all threads of the process together. */
export interface HopTurn {
  readonly cpuMicroseconds: number;
  readonly wallMicroseconds: number;
  readonly invocationsMs: readonly number[];
  /** Of the messages of an event. */
  readonly messageBytes: readonly number[];
}

/** The Lambda entry in a process of its own. */
interface HopHandler {
  turn(task: HopTask): Promise<HopTurn>;
  stop(): Promise<void>;
}

const HANDLER_SCRIPT = new URL('../contestants/hopHandler.ts', import.meta.url);

/** @param certificateFile of the server at the endpoint */
async function startHopHandler(
  { store, resultsPerMessage }: HopConfig,
  modelsDirectory: string,
  endpoint: string,
  certificateFile: string,
): Promise<HopHandler> {
  const queueUrl = (name: string) => `${endpoint}/123456789012/${name}`;
  const child = fork(HANDLER_SCRIPT, {
    // Metrics are written to stdout, as a function writes them.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env: {
      PATH: process.env.PATH,
      NODE_EXTRA_CA_CERTS: certificateFile,
      AWS_ENDPOINT_URL: endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'bench',
      AWS_SECRET_ACCESS_KEY: 'bench',
      AWS_SESSION_TOKEN: 'bench',
      [CONFIG_KEYS.modelsDirectory]: modelsDirectory,
      [CONFIG_KEYS.requestQueueUrls]: queueUrl('requests'),
      [CONFIG_KEYS.results]: store,
      [CONFIG_KEYS.resultQueueUrl]: queueUrl('results'),
      [CONFIG_KEYS.resultTable]: 'results',
      [CONFIG_KEYS.resultBucket]: 'results',
      ...(resultsPerMessage === 1 ? {} : { [CONFIG_KEYS.resultsPerMessage]: String(resultsPerMessage) }),
    },
  });
  const reply = async (): Promise<unknown> => {
    const ended = new AbortController();
    try {
      const [message] = await Promise.race([
        once(child, 'message', ended),
        once(child, 'exit', ended).then(([code]) => {
          throw new Error(`expected the handler to answer, got exit code ${code}`);
        }),
      ]);
      return message;
    } finally {
      ended.abort();
    }
  };
  await reply();
  return {
    async turn(task) {
      child.send(task);
      return (await reply()) as HopTurn;
    },
    async stop() {
      child.disconnect();
      await once(child, 'exit');
    },
  };
}

/** What SQS, DynamoDB and S3 were given, as they bill it. */
export interface Delivered {
  calls: number;
  /** Messages or items. */
  messages: number;
  /** SQS requests that the calls with messages are billed as. */
  chunks: number;
  /** Write units of the items, and read units to read each of them. */
  writeUnits: number;
  readUnits: number;
  objects: number;
  /** Calls that held an error in place of scores. */
  errors: number;
}

/** SQS, DynamoDB and S3 in a process of their own. */
interface AwsServer {
  readonly endpoint: string;
  /** What was delivered since the last time this was asked. */
  takeDelivered(): Promise<Delivered>;
  stop(): Promise<void>;
}

const SERVER_SCRIPT = new URL('../contestants/awsServer.ts', import.meta.url);

async function startAwsServer(certificate: Certificate): Promise<AwsServer> {
  const child = fork(SERVER_SCRIPT);
  child.send(certificate);
  const [{ port }] = await once(child, 'message');
  return {
    endpoint: `https://127.0.0.1:${port}`,
    async takeDelivered() {
      child.send('deliver');
      const [delivered] = await once(child, 'message');
      return delivered;
    },
    async stop() {
      child.disconnect();
      await once(child, 'exit');
    },
  };
}
