import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { SQSBatchResponse, SQSRecord } from 'aws-lambda';
import { REPOSITORY } from './command.ts';
import type { Invoking } from './handlerEnvironment.ts';
import { afterThisTest } from './openModels.ts';
import { sqsEvent } from './sqsEvents.ts';

const ENVIRONMENT = fileURLToPath(new URL('./handlerEnvironment.ts', import.meta.url));

const TIMEOUT_MS = 30_000;

/** The region and credentials that Lambda gives its functions. */
const OF_LAMBDA = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };

export interface HandlerOptions {
  /** Of Node. */
  readonly execArgv?: readonly string[] | undefined;
  /** Whether the entry runs in a worker thread, as on Managed Instances. @default false */
  readonly inThread?: boolean;
  /** Takes what ends the process. @default it is ended after the test */
  readonly cleanUp?: (end: () => Promise<void>) => void;
}

export interface HandlerProcess {
  readonly pid: number | undefined;
  /**
   * @param traceHeader X-Ray's header of the invocation. @default none
   * @param timeoutMs milliseconds until its timeout. @default 30,000
   */
  invoke(records: readonly SQSRecord[], traceHeader?: string, timeoutMs?: number): Promise<SQSBatchResponse>;
  /** How the process ended: its exit code, or the signal that ended it. */
  readonly ended: Promise<readonly [code: number | null, signal: NodeJS.Signals | null]>;
  /** Everything that it printed so far. */
  printed(): string;
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
  { execArgv = [], inThread = false, cleanUp = afterThisTest }: HandlerOptions = {},
): Promise<HandlerProcess> {
  const env = { PATH: process.env.PATH, ...OF_LAMBDA, ...variables };
  const child = fork(ENVIRONMENT, inThread ? ['--in-thread'] : [], {
    cwd: REPOSITORY,
    env,
    execArgv: [...execArgv],
    silent: true,
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      printed += chunk;
    });
  }
  const closed = once(child, 'close').then(([code, signal]) => [code, signal] as const);
  const end = async (): Promise<string> => {
    child.kill('SIGKILL');
    await closed;
    return printed;
  };
  cleanUp(async () => void (await end()));
  const died = closed.then((): never => {
    throw new Error(printed);
  });
  const nextMessage = () => Promise.race([once(child, 'message'), died]);
  await nextMessage();
  return {
    pid: child.pid,
    async invoke(records, traceHeader, timeoutMs = TIMEOUT_MS) {
      // Where the process has gone, that is told below.
      child.send({ event: sqsEvent([...records]), timeoutMs, traceHeader } satisfies Invoking, () => {});
      const [response] = await nextMessage();
      return response;
    },
    ended: closed,
    printed: () => printed,
    end,
  };
}
