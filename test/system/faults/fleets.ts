import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SQSEvent } from 'aws-lambda';
import { startEventSourceMapping } from '../../../cli/local/localMapping.ts';
import { createSqsClient, HOST_PATIENCE } from '../../../lambda/aws/sqsWire.ts';
import { scorersOf, signal, startHandler, startWorkerProcess } from '../../helpers/processes.ts';
import { nameOf } from '../../helpers/strictSqs.ts';

export type Variables = Readonly<Record<string, string>>;

/** What hosts one queue: workers, or environments of the function. It puts another in the place of each that ends. */
export interface Fleet {
  /**
   * Ends one as a deployment does: another is ready before it is told.
   *
   * @param beforeTold is waited for
   * @param onTold is called when it was told, and has not ended yet
   */
  replace(beforeTold?: () => Promise<void>, onTold?: () => Promise<void>): Promise<void>;
  /** Ends one at once. */
  kill(): Promise<void>;
  /** Has one, with its scorers, stand still for so long, or run for a share of that time only. */
  slowDown(ms: number, runningShare: number): Promise<void>;
  /** Has one, with its scorers, get no further descriptor, or write to no file as if the disk were full, for so long. */
  limitFiles(ms: number, limit: FileLimit): Promise<void>;
  /** How many have ended, by how: `SIGKILL`, `code 0`. */
  readonly ends: Readonly<Record<string, number>>;
  /** What they printed, the last lines of each. */
  readonly said: readonly string[];
  /** Of those that run. */
  pids(): number[];
  /** What the first of them has printed. */
  printed(): string;
  stop(): Promise<void>;
}

/** Limits of processes, as `prlimit` names them. */
export type FileLimit = 'nofile' | 'fsize';

const LINES_KEPT = 400;

/** Nothing outlives this process, however it ends. */
export function endAtExit(end: () => Promise<void>): void {
  process.once('exit', () => void end());
}
process.setMaxListeners(0);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

const SLICE_MS = 100;

/** Stops a host and its scorers for most of each tenth of a second. A share of 0 is a pause. */
async function slowDown(pid: number | undefined, ms: number, runningShare: number): Promise<void> {
  if (pid === undefined) return;
  const sliceMs = runningShare === 0 ? ms : SLICE_MS;
  for (const endsAt = performance.now() + ms; performance.now() < endsAt; ) {
    const stopped = [pid, ...scorersOf(pid)];
    for (const one of stopped) signal(one, 'SIGSTOP');
    await sleep(sliceMs * (1 - runningShare));
    for (const one of stopped) signal(one, 'SIGCONT');
    await sleep(sliceMs * runningShare);
  }
}

async function limitFiles(pid: number | undefined, ms: number, limit: FileLimit): Promise<void> {
  if (pid === undefined) return;
  const those = (): number[] => [pid, ...scorersOf(pid)];
  const before = softLimit(pid, limit);
  for (const one of those()) setSoftLimit(one, limit, limit === 'nofile' ? String(openFiles(one)) : '0');
  await sleep(ms);
  // Scorers that were started meanwhile have it from their host.
  for (const one of those()) setSoftLimit(one, limit, before);
}

const NAMES: Readonly<Record<FileLimit, string>> = { nofile: 'Max open files', fsize: 'Max file size' };

function softLimit(pid: number, limit: FileLimit): string {
  const limits = ofProcess(pid, () => readFileSync(`/proc/${pid}/limits`, 'latin1')) ?? '';
  return new RegExp(`^${NAMES[limit]} +(\\w+)`, 'm').exec(limits)?.[1] ?? 'unlimited';
}

/** Needs no rights: it stays below the hard limit. */
function setSoftLimit(pid: number, limit: FileLimit, value: string): void {
  ofProcess(pid, () => execFileSync('prlimit', ['--pid', String(pid), `--${limit}=${value}:`]));
}

function openFiles(pid: number): number {
  return ofProcess(pid, () => readdirSync(`/proc/${pid}/fd`).length) ?? 0;
}

/** @returns undefined if the process has ended */
function ofProcess<T>(pid: number, ask: () => T): T | undefined {
  try {
    return ask();
  } catch (error) {
    if (existsSync(`/proc/${pid}`)) throw error;
    return undefined;
  }
}

function ledger() {
  const ends: Record<string, number> = {};
  const said: string[] = [];
  return {
    ends,
    said,
    ended(code: number | null, signal: string | null, printed: string): void {
      const how = signal ?? `code ${code}`;
      ends[how] = (ends[how] ?? 0) + 1;
      said.push(printed.split('\n').slice(-LINES_KEPT).join('\n'));
    },
  };
}

/** @param credentials where each gets its own. @default it has some that do not end */
export async function startWorkers(variables: Variables, name: string, credentials?: string): Promise<Fleet> {
  const { ends, said, ended } = ledger();
  let started = 0;
  let isStopped = false;
  const start = () => {
    const own = `${credentials}/${name}-worker-${started++}`;
    const ofTask = credentials && {
      ...{ AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '', AWS_CONTAINER_CREDENTIALS_FULL_URI: own },
    };
    const mine = startWorkerProcess({ ...variables, ...ofTask }, endAtExit);
    void mine.ended.then(({ code, signal }) => {
      ended(code, signal, mine.printed());
      if (mine === current && !isStopped) current = start();
    });
    return mine;
  };
  let current = start();
  await current.says('the worker is ready');
  return {
    ends,
    said,
    async replace(beforeTold, onTold) {
      const next = start();
      // One that met a culprit at once is not replaced by another here.
      const isReady = await next.says('the worker is ready').then(
        () => true,
        () => false,
      );
      if (!isReady || isStopped) return void next.send('SIGKILL');
      await beforeTold?.();
      const before = current;
      current = next;
      before.send('SIGTERM');
      await Promise.all([before.ended, onTold?.()]);
    },
    async kill() {
      const mine = current;
      mine.send('SIGKILL');
      await mine.ended;
    },
    slowDown: (ms, runningShare) => slowDown(current.pid, ms, runningShare),
    limitFiles: (ms, limit) => limitFiles(current.pid, ms, limit),
    pids: () => [current.pid ?? 0],
    printed: () => current.printed(),
    async stop() {
      isStopped = true;
      current.send('SIGTERM');
      await current.ended;
    },
  };
}

interface Limits {
  readonly batchSize: number;
  readonly concurrency: number;
  readonly timeoutSeconds: number;
  /** Asked before each invocation: true if Lambda refuses it. @default never */
  readonly isThrottled?: () => boolean;
  /** True if environments stand still between calls. @default false */
  readonly isFrozen?: boolean;
}

type Environment = Awaited<ReturnType<typeof startHandler>>;

/** The function behind the event source mapping of `npm run dev`. */
export async function startFunctions(variables: Variables, queueUrl: string, limits: Limits): Promise<Fleet> {
  const { ends, said, ended } = ledger();
  const { batchSize, concurrency, timeoutSeconds, isThrottled = () => false, isFrozen = false } = limits;
  const sqs = createSqsClient(HOST_PATIENCE, {
    ...{ endpoint: new URL(queueUrl).origin, region: 'us-east-1', useQueueUrlAsEndpoint: false },
    credentials: { accessKeyId: 'mapping', secretAccessKey: 'any' },
  });
  const all = new Set<Environment>();
  const idle: Environment[] = [];
  let wakeOne = Promise.withResolvers<void>();
  let isStopped = false;
  const offer = (mine: Environment): void => {
    if (!all.has(mine)) return;
    idle.push(mine);
    wakeOne.resolve();
    wakeOne = Promise.withResolvers<void>();
  };
  const start = async (): Promise<void> => {
    const mine = await startHandler(variables, { isFrozen, cleanUp: endAtExit });
    all.add(mine);
    void mine.ended.then(([code, signal]) => {
      all.delete(mine);
      ended(code, signal, mine.printed());
      if (!isStopped) void start();
    });
    offer(mine);
  };
  await Promise.all(Array.from({ length: concurrency }, start));
  const takeIdle = async (): Promise<Environment> => {
    for (;;) {
      const mine = idle.shift();
      if (mine === undefined) await wakeOne.promise;
      else if (all.has(mine)) return mine;
    }
  };
  const invoke = async ({ Records }: SQSEvent) => {
    if (isThrottled()) throw new Error('TooManyRequestsException: Rate Exceeded.');
    const mine = await takeIdle();
    // As Lambda does it with one that has not answered in its time.
    const timer = setTimeout(() => void mine.end(), 1000 * timeoutSeconds);
    try {
      return await mine.invoke(Records, undefined, 1000 * timeoutSeconds);
    } finally {
      clearTimeout(timer);
      offer(mine);
    }
  };
  const mapping = startEventSourceMapping({
    sqs,
    queueUrl,
    queueArn: `arn:aws:sqs:us-east-1:000000000000:${nameOf(queueUrl)}`,
    region: 'us-east-1',
    batchSize: queueUrl.endsWith('.fifo') ? Math.min(10, batchSize) : batchSize,
    windowSeconds: queueUrl.endsWith('.fifo') ? 0 : 1,
    maximumConcurrency: concurrency,
    // Those of an environment that starts too.
    functionTimeoutSeconds: 10 * timeoutSeconds,
    invoke,
    onError: ({ message }) => void said.push(message),
  });
  return {
    ends,
    said,
    // Nobody tells it: Lambda takes those away that have nothing to do.
    replace: async () => void (await idle[0]?.end()),
    kill: async () => void (await [...all][0]?.end()),
    slowDown: (ms, runningShare) => slowDown([...all][0]?.pid, ms, runningShare),
    limitFiles: (ms, limit) => limitFiles([...all][0]?.pid, ms, limit),
    pids: () => [...all].map(({ pid }) => pid ?? 0),
    printed: () => [...all][0]?.printed() ?? '',
    async stop() {
      await mapping.stop();
      isStopped = true;
      await Promise.all([...all].map((mine) => mine.end()));
      sqs.destroy();
    },
  };
}
