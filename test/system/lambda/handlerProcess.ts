import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { SQSBatchResponse, SQSRecord } from 'aws-lambda';
import { REPOSITORY } from '../../helpers/command.ts';
import { afterThisTest } from '../../helpers/openModels.ts';
import { sqsEvent } from '../../helpers/sqsEvents.ts';
import type { Invoked, Invoking } from './handlerEnvironment.ts';

const ENVIRONMENT = fileURLToPath(new URL('./handlerEnvironment.ts', import.meta.url));

/** The same in a worker thread, as on Managed Instances. */
export const IN_THREAD = fileURLToPath(new URL('./handlerThread.ts', import.meta.url));

const TIMEOUT_MS = 30_000;

/** The region and credentials that Lambda gives its functions. */
const OF_LAMBDA = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };

export interface HandlerProcess {
  invoke(records: readonly SQSRecord[]): Promise<SQSBatchResponse>;
  /** Invokes the handler with so many milliseconds until its timeout, and measures. */
  measure(records: readonly SQSRecord[], timeoutMs?: number): Promise<Invoked>;
  /** How the process ended: its exit code, or the signal that ended it. */
  readonly ended: Promise<readonly [code: number | null, signal: NodeJS.Signals | null]>;
  /** Ends the process. @returns everything that it printed, what ONNX Runtime's native code prints included */
  end(): Promise<string>;
}

/**
 * `lambda/handler.ts` in a process of its own, as Lambda starts it: with nothing but environment variables. It is ended
 * after the test.
 *
 * @throws Error with what the process printed, when the entry cannot be imported
 */
export async function startHandler(
  variables: Readonly<Record<string, string>>,
  execArgv: readonly string[] = [],
  environment = ENVIRONMENT,
): Promise<HandlerProcess> {
  const env = { PATH: process.env.PATH, ...OF_LAMBDA, ...variables };
  const child = fork(environment, { cwd: REPOSITORY, env, execArgv: [...execArgv], silent: true });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      printed += chunk;
    });
  }
  const closed = once(child, 'close').then(([code, signal]) => [code, signal] as const);
  const end = async (): Promise<string> => {
    child.kill();
    await closed;
    return printed;
  };
  afterThisTest(async () => void (await end()));
  const died = closed.then((): never => {
    throw new Error(printed);
  });
  const nextMessage = () => Promise.race([once(child, 'message'), died]);
  await nextMessage();
  const measure = async (records: readonly SQSRecord[], timeoutMs = TIMEOUT_MS): Promise<Invoked> => {
    child.send({ event: sqsEvent([...records]), timeoutMs } satisfies Invoking);
    const [invoked] = await nextMessage();
    return invoked;
  };
  return {
    measure,
    invoke: async (records) => (await measure(records)).response,
    ended: closed,
    end,
  };
}
