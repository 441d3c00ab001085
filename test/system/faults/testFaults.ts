/**
 * Sends messages to the function and to workers while everything around them fails, and settles the account: `npm run
 * test:faults`. Ends with 1 where a message was lost, or answered wrongly, or went to the dead letters through no fault of
 * its own, and with 2 where the machine was too slow to judge that. Time is scaled: what a host hides for a while comes back after 2 ms for each second, so that an outage of an hour
 * takes seven seconds. What it holds stays hidden for real seconds, as heartbeats are sent by the clock.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BatchGetItemCommand, CreateTableCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  PutObjectCommand,
  paginateListObjectsV2,
  type S3Client,
} from '@aws-sdk/client-s3';
import dynalite from 'dynalite';
import { buildApp } from 'fauxqs';
import { asksForHelp, type Main, parseOptions, runCommand, UsageError, wholeNumber } from '../../../cli/arguments.ts';
import { createDynamoDbClient, createS3Client } from '../../../lambda/aws/awsClients.ts';
import { MAX_RECEIVES } from '../../../lambda/core/limits.ts';
import { startFront } from '../../helpers/frontServer.ts';
import { MAX_HIDDEN_SECONDS, MAX_SEED, redrivePolicy, startStrictSqs } from '../../helpers/strictSqs.ts';
import {
  type Account,
  emptyAccount,
  FAULTY,
  keepOnly,
  noteTaken,
  settle,
  sumOf,
  type Written,
  writtenTo,
} from './account.ts';
import { createFaults, type FaultKind, startCredentials } from './faults.ts';
import { type Fleet, startFunctions, startWorkers, type Variables } from './fleets.ts';
import { JOB_BUCKET, runJob } from './jobs.ts';
import { culprit, longRun, message, putModels, type Sent } from './messages.ts';

/** The judge's own calls outlast a machine that is busy with the hosts. */
const PATIENCE = { connectMs: 30_000, answerMs: 60_000 };

const USAGE = `usage: npm run test:faults -- [--seed N] [--minutes M] [--messages K] [--backlog B] [--json]

  --seed      of messages, faults and what is ended when; a whole number. Default 1
  --minutes   that producers go on sending. Default 2
  --messages  that are sent at most. Default as many as the hosts take
  --backlog   that wait or are held at each host, at most. More are more messages in the same time, and fewer hosts that
              are replaced while their polls wait. Default 600
  --json      the account as JSON`;

/** More than any delay of a first retry, and unlike all of them. */
const VISIBILITY_SECONDS = 20;
const SECOND_MS = 2;
const HOUR_MS = 3_600 * SECOND_MS;
const ROUND_SECONDS = 40;
/** In which nothing is settled any more: much longer than what was lost with its host stays hidden. */
const SETTLING_MS = 120_000;
const MAX_AT_ONCE = 1_000;

const HOSTS = ['worker', 'function'] as const;
type HostName = (typeof HOSTS)[number];

interface Variant {
  readonly stores: readonly ('queue' | 'table' | 'bucket')[];
  readonly isFifo?: true;
  readonly more?: Variables;
}

/** What hosts write to, in turn. */
const VARIANTS: readonly Variant[] = [
  { stores: ['queue'] },
  { stores: ['queue', 'table', 'bucket'] },
  { stores: ['bucket'] },
  { stores: ['queue'], more: { BATCHSCORE_RESULTS_PER_MESSAGE: '10000' } },
  { stores: ['table'] },
  { stores: ['queue'], isFifo: true },
];

const REFUSALS: readonly FaultKind[] = ['missing', 'denied'];
const OUTAGES: readonly FaultKind[] = [...REFUSALS, 'throttled', 'unavailable', 'cut before', 'silence'];

type World = Awaited<ReturnType<typeof startWorld>>;

async function startWorld(seed: number) {
  const faults = createFaults(seed);
  const credentials = await startCredentials();
  const sqs = await startStrictSqs((seconds) =>
    seconds === VISIBILITY_SECONDS || seconds === MAX_HIDDEN_SECONDS ? 1000 * seconds : SECOND_MS * seconds,
  );
  sqs.intercept((call) => faults.sqs(call, credentials.isExpired(call)));
  const stores: Record<'table' | 'bucket', Written> = { table: new Map(), bucket: new Map() };
  const tables = dynalite({ createTableMs: 0 });
  tables.listen(0, '127.0.0.1');
  await once(tables, 'listening');
  const address = tables.address();
  if (address === null || typeof address === 'string') throw new Error('expected a TCP address');
  const tablesEndpoint = `http://127.0.0.1:${address.port}`;
  const buckets = buildApp({ logger: false });
  const bucketsEndpoint = await buckets.listen({ port: 0, host: '127.0.0.1' });
  const took = (exchange: Parameters<typeof noteTaken>[0]) => noteTaken(exchange, stores.table, stores.bucket);
  const tableFront = await startFront(
    tablesEndpoint,
    faults.front('dynamodb', () => 'table', took),
  );
  const bucketOf = (path: string): string => path.split(/[/?]/)[1] ?? '';
  const bucketFront = await startFront(bucketsEndpoint, faults.front('s3', bucketOf, took));

  const anyone = { region: 'us-east-1', credentials: { accessKeyId: 'any', secretAccessKey: 'any' } };
  const s3 = createS3Client(PATIENCE, { ...anyone, endpoint: bucketsEndpoint, forcePathStyle: true });
  for (const Bucket of ['results', 'payloads', JOB_BUCKET]) await s3.send(new CreateBucketCommand({ Bucket }));
  const dynamodb = createDynamoDbClient(PATIENCE, { ...anyone, endpoint: tablesEndpoint });
  await dynamodb.send(
    new CreateTableCommand({
      TableName: 'results',
      AttributeDefinitions: [{ AttributeName: 'messageId', AttributeType: 'S' }],
      KeySchema: [{ AttributeName: 'messageId', KeyType: 'HASH' }],
      BillingMode: 'PAY_PER_REQUEST',
    }),
  );
  const models = await mkdtemp(join(tmpdir(), 'batchscore-faults-'));
  await putModels(models);
  return {
    ...{ seed, faults, credentials, sqs, stores, models, s3, dynamodb },
    endpoints: { AWS_ENDPOINT_URL_DYNAMODB: tableFront.endpoint, AWS_ENDPOINT_URL_S3: bucketFront.endpoint },
    async stop() {
      await Promise.all([sqs.stop(), tableFront.stop(), bucketFront.stop(), rm(models, { recursive: true })]);
      s3.destroy();
      dynamodb.destroy();
      credentials.stop();
      await buckets.close();
      tables.closeAllConnections();
      await new Promise((resolve) => void tables.close(resolve));
    },
  };
}

interface Deployed {
  readonly title: string;
  readonly requests: string;
  readonly results: string;
  readonly variant: Variant;
  readonly fleet: Fleet;
  readonly sent: Map<string, Sent>;
  /** Messages that wait or are held: producers do not send more. */
  readonly backlog: number;
  /** While it is so, no producer sends. */
  isLull: boolean;
}

async function deploy(
  host: HostName,
  variant: Variant,
  round: number,
  world: World,
): Promise<Omit<Deployed, 'backlog'>> {
  const { sqs, endpoints, credentials, models } = world;
  const suffix = `${host}-${round}${variant.isFifo ? '.fifo' : ''}`;
  const [requests, results, dead] = [`requests-${suffix}`, `results-${suffix}`, `dead-${suffix}`] as const;
  const RedrivePolicy = redrivePolicy(sqs.createQueue(dead), MAX_RECEIVES);
  const queueUrl = sqs.createQueue(requests, { VisibilityTimeout: String(VISIBILITY_SECONDS), RedrivePolicy });
  const variables = {
    ...endpoints,
    AWS_ENDPOINT_URL_SQS: sqs.endpoint,
    BATCHSCORE_MODELS_DIR: models,
    BATCHSCORE_REQUEST_QUEUE_URL: queueUrl,
    BATCHSCORE_RESULTS: variant.stores.join(','),
    BATCHSCORE_RESULT_QUEUE_URL: sqs.createQueue(results),
    BATCHSCORE_RESULT_TABLE: 'results',
    BATCHSCORE_RESULT_BUCKET: 'results',
    BATCHSCORE_PAYLOAD_BUCKET: 'payloads',
    BATCHSCORE_VISIBILITY_SECONDS: String(VISIBILITY_SECONDS),
    BATCHSCORE_TIMEOUT_SECONDS: '8',
    BATCHSCORE_BATCH_SIZE: '100',
    BATCHSCORE_STOP_SECONDS: '4',
    BATCHSCORE_MAX_POLLS: '8',
    ...variant.more,
  };
  const limits = {
    batchSize: 100,
    concurrency: 2,
    timeoutSeconds: 8,
    isFrozen: true,
    isThrottled: world.faults.throttles,
  };
  const fleet =
    host === 'worker'
      ? await startWorkers(variables, requests, credentials.endpoint)
      : await startFunctions(variables, queueUrl, limits);
  const title = `${host}, ${variant.isFifo ? 'FIFO ' : ''}${variant.stores.join(' + ')}${variant.more ? ', packed' : ''}`;
  return { title, requests, results, variant, fleet, sent: new Map(), isLull: false };
}

async function send(to: Deployed, one: Sent, { sqs, s3 }: World): Promise<void> {
  let { body } = one;
  const n = to.sent.size;
  if (one.isPayload) {
    const where = { s3BucketName: 'payloads', s3Key: `requests/${to.requests}-${n}` };
    await s3.send(new PutObjectCommand({ Bucket: where.s3BucketName, Key: where.s3Key, Body: body }));
    body = JSON.stringify(['software.amazon.payloadoffloading.PayloadS3Pointer', where]);
  }
  to.sent.set(sqs.sendMessage(to.requests, body, to.variant.isFifo ? `group-${n % 50}` : undefined), one);
}

/** Sends until it is told to stop, or has sent so many. */
async function produce(to: Deployed, max: number, world: World, signal: AbortSignal): Promise<void> {
  for (let n = 0; n < max && !signal.aborted; ) {
    const room = to.isLull ? 0 : to.backlog - world.sqs.left(to.requests);
    const end = n + Math.min(room, max - n, MAX_AT_ONCE);
    for (; n < end; n++) await send(to, message(n, world.faults.random), world);
    await sleep(20);
  }
}

/** What a host meets, in turn. */
const DEEDS: readonly ((on: Deployed, world: World) => Promise<void>)[] = [
  ({ fleet }) => fleet.replace(),
  replaceInLull,
  ({ fleet }) => fleet.slowDown(PAUSE_MS, 0),
  ({ fleet }) => fleet.kill(),
  replaceInOutage,
  ({ fleet }) => fleet.slowDown(PAUSE_MS, 0.3),
  async (on, world) => {
    await send(on, longRun(), world);
    for (let turn = 0; turn < FLOOD; turn++) await send(on, culprit(turn), world);
  },
  ({ fleet }) => fleet.limitFiles(PAUSE_MS, 'nofile'),
  ({ fleet }) => fleet.limitFiles(PAUSE_MS, 'fsize'),
];
const STEPS = 5;
const PAUSE_MS = 3_000;
/** Culprits at once. None of them hangs. */
const FLOOD = 8;

/** Ends and hinders hosts, and sends what does, while faults cost receives. */
async function storm(on: Deployed, seconds: number, world: World, turn: number): Promise<void> {
  const pause = (share: number): Promise<void> => sleep(1000 * seconds * share);
  for (let step = STEPS * turn; step < STEPS * (turn + 1); step++) {
    await pause(0.05);
    await send(on, culprit(step), world);
    await pause(0.05);
    await DEEDS[step % DEEDS.length]?.(on, world);
  }
}

/** Replaces a host while its results are refused. */
async function replaceInOutage(on: Deployed, { faults }: World): Promise<void> {
  const [store = ''] = storesOf(on);
  faults.begin(store, 'denied');
  await on.fleet.replace();
  faults.end(store);
}

/** The targets of faults that its results go to. */
function storesOf({ variant, results }: Deployed): string[] {
  return variant.stores.map((store) => ({ queue: results, table: 'table', bucket: 'results' })[store]);
}

const LULL_MS = 8_000;
const MANY_POLLS = 6;
/** So many at once make a worker poll as often as it may: those polls then wait. */
const BURST = 200;
const BURST_MS = 1_000;
const TRICKLE = 50;

/** Replaces a host while its polls wait for messages, which come once it was told to end. */
async function replaceInLull(on: Deployed, world: World): Promise<void> {
  const sendPlain = (n: number): Promise<void> => {
    const plain = message(n, () => 0);
    return send(on, plain, world);
  };
  const wait = (): boolean => world.sqs.openPolls(on.requests) >= MANY_POLLS;
  const pollsWait = async (): Promise<void> => {
    on.isLull = true;
    const endsAt = performance.now() + LULL_MS;
    while (!wait() && performance.now() < endsAt) {
      for (let n = 0; n < BURST; n++) await sendPlain(n);
      const burstEndsAt = performance.now() + BURST_MS;
      while (!wait() && performance.now() < burstEndsAt) await sleep(5);
    }
  };
  const trickle = async (): Promise<void> => {
    for (let n = 0; n < TRICKLE; n++) {
      await sendPlain(n);
      await sleep(10);
    }
  };
  await on.fleet.replace(pollsWait, trickle);
  on.isLull = false;
}

/** @param isStore whether a store of results refuses all: refusals come at once, so retries in haste would spend all receives */
async function outage(on: Deployed, seconds: number, isStore: boolean, { faults }: World): Promise<string> {
  const targets = storesOf(on);
  const oneOf = <T>(all: readonly T[]): T => all[Math.floor(faults.random() * all.length)] as T;
  const target = oneOf(isStore ? targets : [...targets, on.requests, 'payloads']);
  const kind = oneOf(isStore ? REFUSALS : OUTAGES);
  faults.begin(target, kind);
  await sleep(Math.min(HOUR_MS, 1000 * seconds * 0.2));
  faults.end(target);
  return `${target}: ${kind}`;
}

interface Round {
  readonly accounts: readonly { readonly title: string; readonly account: Account; readonly ends: Fleet['ends'] }[];
  readonly outages: readonly string[];
}

interface Limits {
  readonly seconds: number;
  /** Messages to each host. */
  readonly max: number;
  readonly backlog: number;
}

async function playRound(round: number, { seconds, max, backlog }: Limits, world: World, say: Say): Promise<Round> {
  const { sqs, faults, stores, seed } = world;
  for (const written of Object.values(stores)) written.clear();
  const all = await Promise.all(
    HOSTS.map(async (host, index) => {
      const variant = VARIANTS[(seed + round + 3 * index) % VARIANTS.length] as Variant;
      return { ...(await deploy(host, variant, round, world)), backlog };
    }),
  );
  const over = new AbortController();
  const producing = all.map((one) => produce(one, max, world, over.signal));
  faults.storm(true);
  const job = jobBeside(round, world, say);
  const clocks = [600_000, 0, -600_000, 0].map((ms, index) =>
    setTimeout(() => sqs.setClock(ms), 100 * seconds * (index + 1)),
  );
  await Promise.all(all.map((one, index) => storm(one, seconds, world, round + index)));
  const at = (what: string): void =>
    say(
      `${what}: ${all.map(({ requests, sent }) => `${requests} ${sent.size} sent, ${sqs.left(requests)} left`).join('; ')}`,
    );
  at('after the storm');
  for (const clock of clocks) clearTimeout(clock);
  sqs.setClock(0);
  faults.storm(false);
  const outages = await Promise.all(
    all.map((one, index) => outage(one, seconds, (seed + round + index) % 2 === 1, world)),
  );
  at(`after ${outages.join(' and ')}`);
  await sleep(1000 * seconds * 0.3);
  over.abort();
  await Promise.all(producing);
  await settled(() => all.reduce((sum, { requests }) => sum + sqs.left(requests), 0));
  const jobAccount = await job;
  at('all sent');
  await Promise.all(all.map(({ fleet }) => fleet.stop()));
  keepOnly(stores.table, await heldByTable(world.dynamodb, [...stores.table.keys()]));
  keepOnly(stores.bucket, await heldByBucket(world.s3));
  const isKnown = (id: string): boolean => all.some(({ sent }) => sent.has(id));
  const accounts = all.map(({ title, requests, results, variant, fleet, sent }) => {
    const written = variant.stores.map((store) => (store === 'queue' ? writtenTo(sqs, results) : stores[store]));
    const account = settle({ sqs, queue: requests, sent, isKnown, stores: written, say });
    if (FAULTY.some((what) => account[what] > 0) && process.env.FAULTS_LOG) say(fleet.said.join('\n'));
    return { title, account, ends: fleet.ends };
  });
  for (const { requests, results } of all) for (const queue of [requests, results]) sqs.deleteQueue(queue);
  return { accounts: [...accounts, { title: 'jobs', account: jobAccount, ends: {} }], outages };
}

const KEYS_A_CALL = 100;

/** What the table holds under the keys of messages, as `note` has it. What has expired by its time to live is not there. */
async function heldByTable(dynamodb: DynamoDBClient, ids: readonly string[]): Promise<Map<string, string>> {
  const held = new Map<string, string>();
  for (let from = 0; from < ids.length; from += KEYS_A_CALL) {
    const Keys = ids.slice(from, from + KEYS_A_CALL).map((id) => ({ messageId: { S: id } }));
    const { Responses = {} } = await dynamodb.send(new BatchGetItemCommand({ RequestItems: { results: { Keys } } }));
    for (const { messageId, body, expiresAt } of Responses.results ?? []) {
      if (expiresAt !== undefined && 1000 * Number(expiresAt.N) <= Date.now()) continue;
      held.set(messageId?.S ?? '', JSON.stringify(JSON.parse(body?.S ?? '')));
    }
  }
  return held;
}

/** What the bucket of results holds, as `note` has it; of two results of one message the last. */
async function heldByBucket(s3: S3Client): Promise<Map<string, string>> {
  const held = new Map<string, string>();
  for await (const { Contents = [] } of paginateListObjectsV2({ client: s3 }, { Bucket: 'results' })) {
    for (const { Key } of Contents) {
      const { Body } = await s3.send(new GetObjectCommand({ Bucket: 'results', Key }));
      for (const line of ((await Body?.transformToString()) ?? '').trimEnd().split('\n')) {
        const answer = JSON.parse(line);
        held.set([answer].flat()[0].message_id, JSON.stringify(answer));
      }
      await s3.send(new DeleteObjectCommand({ Bucket: 'results', Key }));
    }
  }
  return held;
}

/** Waits until none is left, or their number has stayed the same for `SETTLING_MS`. */
async function settled(countLeft: () => number): Promise<void> {
  let left = countLeft();
  for (let since = performance.now(); left > 0 && performance.now() - since < SETTLING_MS; ) {
    await sleep(50);
    const now = countLeft();
    if (now !== left) since = performance.now();
    left = now;
  }
}

const JOB_ROWS = 2_000;

/** A job is given no hour's outage: it ends then, and is resumed by who reads of it. */
function jobBeside(round: number, { endpoints, models, s3 }: World, say: Say): Promise<Account> {
  return runJob({ rows: JOB_ROWS, name: `rows-${round}`, variables: endpoints, models, s3, say });
}

type Say = (line: string) => void;

const MAX_MINUTES = 600;

const main: Main = async (args) => {
  if (asksForHelp(args)) {
    console.log(USAGE);
    return 0;
  }
  const text = { type: 'string' } as const;
  const values = parseOptions(args, {
    seed: text,
    minutes: text,
    messages: text,
    backlog: text,
    json: { type: 'boolean' },
  });
  const seed = wholeNumber('--seed', values.seed ?? '1', 0, MAX_SEED);
  const minutes = Number(values.minutes ?? 2);
  if (!(minutes > 0 && minutes <= MAX_MINUTES))
    throw new UsageError(`--minutes: expected a number above 0, at most ${MAX_MINUTES}, got '${values.minutes}'`);
  const messages =
    values.messages === undefined ? Number.POSITIVE_INFINITY : wholeNumber('--messages', values.messages, 1, 1e9);

  const backlog = wholeNumber('--backlog', values.backlog ?? '600', 1, 1e6);

  const say: Say = (line) => console.error(line);
  const startedAt = performance.now();
  const machine = watchMachine();
  const rounds = Math.max(1, Math.round((60 * minutes) / ROUND_SECONDS));
  const world = await startWorld(seed);
  const played: Round[] = [];
  for (let round = 0; round < rounds; round++) {
    const limits = { seconds: (60 * minutes) / rounds, max: messages / rounds / HOSTS.length, backlog };
    played.push(await playRound(round, limits, world, say));
    const { sent, answered } = sumOf(played.flatMap(({ accounts }) => accounts.map(({ account }) => account)));
    say(`round ${round + 1} of ${rounds}: ${sent} sent, ${answered} answered`);
  }
  await world.stop();
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  const accounts = played.flatMap((one) => one.accounts);
  const total = sumOf(accounts.map(({ account }) => account));
  const outages = played.flatMap((one) => one.outages);
  const report = {
    seed,
    seconds,
    cores: availableParallelism(),
    slowness: machine.stop(),
    total,
    faults: world.faults.counts,
    outages,
    accounts,
  };
  console.log(values.json ? JSON.stringify(report, undefined, 2) : tableOf(report));
  if (total.sent > 0 && !FAULTY.some((what) => total[what] > 0)) return 0;
  // An answer that is wrong is so however late it comes.
  const isLate = FAULTY.every((what) => total[what] === 0 || OF_TIME.has(what));
  if (!isLate || report.slowness < MAX_SLOWNESS) return 1;
  const wanted = `expected a machine at most ${MAX_SLOWNESS} times as slow as at its best`;
  say(`too slow to judge: ${wanted}, got ${report.slowness} times; let it do less meanwhile`);
  return 2;
};

/** What befalls messages, too, for which there is no time. */
const OF_TIME: ReadonlySet<(typeof FAULTY)[number]> = new Set(['innocent', 'lost']);
const MAX_SLOWNESS = 12;
const LOOK_MS = 1_000;
const WORK = 2e7;

/** Does a known piece of work once a second. Stops with how much longer it took, the wait for its turn included, in the slowest tenth than at best. */
function watchMachine(): { stop(): number } {
  const took: number[] = [];
  let due = performance.now() + LOOK_MS;
  const timer = setInterval(() => {
    let x = 0;
    for (let step = 0; step < WORK; step++) x = (31 * x + step) | 0;
    took.push(performance.now() - due + 0 * x);
    due = performance.now() + LOOK_MS;
  }, LOOK_MS);
  return {
    stop() {
      clearInterval(timer);
      took.sort((a, b) => a - b);
      return Math.round((took[Math.floor(0.9 * took.length)] ?? 1) / (took[0] ?? 1));
    },
  };
}

interface Report {
  readonly total: Account;
  readonly faults: Readonly<Record<string, number>>;
  readonly accounts: Round['accounts'];
}

/** A row for each host and store, and one for all. */
function tableOf({ total, faults, accounts }: Report): string {
  const columns = Object.keys(emptyAccount()) as (keyof Account)[];
  const rows = [...accounts, { title: 'all', account: total }].map(({ title, account }) => [
    title,
    ...columns.map((one) => String(account[one])),
  ]);
  const table = [['', ...columns], ...rows].map((cells) =>
    cells
      .map((cell, index) => (index === 0 ? cell.padEnd(40) : cell.padStart((columns[index - 1]?.length ?? 0) + 2)))
      .join(''),
  );
  const met = Object.entries(faults).map(([kind, count]) => `${kind} ${count}`);
  return [...table, '', `calls that met a fault: ${met.join(', ')}`].join('\n');
}

await runCommand(main);
