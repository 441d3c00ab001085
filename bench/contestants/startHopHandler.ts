import { fork } from 'node:child_process';
import { once } from 'node:events';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import type { Encoding } from '../workload/messages.ts';
import type { RequestsPerMessage } from '../workload/packing.ts';

/** Where results go, and how many share a message of the queue. */
export interface HopConfig {
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
export interface HopHandler {
  turn(task: HopTask): Promise<HopTurn>;
  stop(): Promise<void>;
}

const SCRIPT = new URL('./hopHandler.ts', import.meta.url);

/** @param certificateFile of the server at the endpoint */
export async function startHopHandler(
  { store, resultsPerMessage }: HopConfig,
  modelsDirectory: string,
  endpoint: string,
  certificateFile: string,
): Promise<HopHandler> {
  const queueUrl = (name: string) => `${endpoint}/123456789012/${name}`;
  const child = fork(SCRIPT, {
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
