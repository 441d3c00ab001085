import { fork } from 'node:child_process';
import { once } from 'node:events';
import { CONFIG_KEYS, CONFIG_PREFIX } from '../../lambda/configKeys.ts';

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
export interface Poller {
  /** Microseconds of CPU that all its threads have taken so far. */
  cpuMicroseconds(): Promise<number>;
  /** Rejects when the process ends by itself. */
  readonly died: Promise<never>;
  stop(): Promise<void>;
}

/** Where its queues are. */
export interface Place {
  readonly endpoint: string;
  readonly certificateFile: string;
}

const COUNTER = new URL('./cpuCounter.ts', import.meta.url);
const BARE_LOOP = new URL('./bareLoop.ts', import.meta.url);
const WORKER = new URL('../../lambda/worker.ts', import.meta.url);

export function requestQueueAt(endpoint: string): string {
  return `${endpoint}/123456789012/requests`;
}

export function resultQueueAt(endpoint: string): string {
  return `${endpoint}/123456789012/results`;
}

export function startBareLoop(place: Place, settings: BareSettings): Poller {
  return start(BARE_LOOP, [place.endpoint, JSON.stringify(settings)], place, {});
}

/** @param variables of the worker, beside those that say where its queues are, and those that this process has */
export function startWorkerProcess(place: Place, variables: Readonly<Record<string, string>>): Poller {
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
