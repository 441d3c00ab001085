import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { SQSBatchResponse, SQSRecord } from 'aws-lambda';
import { REPOSITORY } from './command.ts';
import type { Invoked, Invoking } from './handlerEnvironment.ts';

/* The two hosts as processes, for tests and for programs that are none. */

const ENTRY = fileURLToPath(new URL('../../lambda/worker.ts', import.meta.url));
const OF_ECS = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };

/** Hosts start from the same sources again and again: compiled once, a start takes a third of the time. */
const { NODE_COMPILE_CACHE = join('node_modules', '.cache', 'compiled') } = process.env;

/** Takes what ends the process, for when nobody needs it any more. */
type CleanUp = (end: () => Promise<void>) => void;

/** `lambda/worker.ts` in a process of its own, with nothing but environment variables. */
export function startWorkerProcess(variables: Readonly<Record<string, string>>, cleanUp: CleanUp) {
  const child = spawn(process.execPath, [ENTRY], {
    cwd: REPOSITORY,
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE, ...OF_ECS, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  let another = Promise.withResolvers<void>();
  for (const input of [child.stdout, child.stderr]) {
    createInterface({ input }).on('line', (line) => {
      lines.push(line);
      another.resolve();
      another = Promise.withResolvers<void>();
    });
  }
  const ended = once(child, 'close').then(
    ([code, signal]): { readonly code: number | null; readonly signal: NodeJS.Signals | null } => ({
      code,
      signal,
    }),
  );
  cleanUp(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return {
    pid: child.pid,
    /** Waits for a line of the log with this text. @returns the line, parsed */
    async says(text: string): Promise<Record<string, unknown>> {
      const died = ended.then((): never => {
        throw new Error(`expected '${text}' from the worker, it ended:\n${lines.join('\n')}`);
      });
      died.catch(() => {});
      for (;;) {
        const line = lines.find((one) => one.includes(text));
        if (line !== undefined) return JSON.parse(line);
        await Promise.race([another.promise, died]);
      }
    },
    send: (signal: NodeJS.Signals): void => void child.kill(signal),
    ended,
    printed: () => lines.join('\n'),
  };
}

const ENVIRONMENT = fileURLToPath(new URL('./handlerEnvironment.ts', import.meta.url));

/** The region and credentials that Lambda gives its functions. */
const OF_LAMBDA = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };

export interface HandlerOptions {
  /** Of Node. */
  readonly execArgv?: readonly string[] | undefined;
  /** True if the entry runs in a worker thread, as on Managed Instances. @default false */
  readonly inThread?: boolean;
  /** True if it stands still between calls, as an environment of Lambda does, with all that it has started. @default false */
  readonly isFrozen?: boolean;
  /** @default handler */
  readonly entry?: 'handler' | 'jobScore' | 'jobControl';
  readonly cleanUp: CleanUp;
}

/**
 * `lambda/handler.ts`, or another entry, in a process of its own, as Lambda starts it: with nothing but environment variables.
 *
 * @throws Error with what the process printed, when the entry cannot be imported
 */
export async function startHandler(
  variables: Readonly<Record<string, string>>,
  { execArgv = [], inThread = false, isFrozen = false, entry = 'handler', cleanUp }: HandlerOptions,
) {
  const env = { PATH: process.env.PATH, NODE_COMPILE_CACHE, ...OF_LAMBDA, ...variables };
  const child = fork(ENVIRONMENT, [inThread ? '--in-thread' : entry], {
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
  let frozen: readonly number[] = [];
  const freeze = (): void => {
    if (!isFrozen || child.pid === undefined) return;
    child.kill('SIGSTOP');
    frozen = scorersOf(child.pid);
    for (const scorer of frozen) signal(scorer, 'SIGSTOP');
  };
  const thaw = (): void => {
    for (const scorer of frozen) signal(scorer, 'SIGCONT');
    frozen = [];
    if (isFrozen) child.kill('SIGCONT');
  };
  // Scorers end by themselves when they find their host gone.
  child.once('exit', thaw);
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
  freeze();
  /**
   * Calls the entry. A call that outlasts its time ends the process, as Lambda does.
   *
   * @throws Error of the name that the handler's has, or with what was printed before the process ended
   */
  const call = async (event: unknown, timeoutMs: number, traceHeader?: string): Promise<unknown> => {
    thaw();
    // Where the process has gone, that is told below.
    child.send({ event, timeoutMs, traceHeader } satisfies Invoking, () => {});
    const overdue = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
    const [answer]: Invoked[] = await nextMessage().finally(() => clearTimeout(overdue));
    freeze();
    if (answer === undefined || 'response' in answer) return answer?.response;
    throw Object.assign(new Error(answer.errorMessage), { name: answer.errorType });
  };
  return {
    pid: child.pid,
    call,
    /**
     * @param traceHeader X-Ray's header of the invocation. @default none
     * @param timeoutMs milliseconds until its timeout. @default 30,000
     */
    async invoke(records: readonly SQSRecord[], traceHeader?: string, timeoutMs = 30_000): Promise<SQSBatchResponse> {
      // What it is, tests compare.
      return (await call({ Records: records }, timeoutMs, traceHeader)) as SQSBatchResponse;
    },
    isAlive: () => child.exitCode === null && child.signalCode === null,
    /** How the process ended: its exit code, or the signal that ended it. */
    ended: closed,
    printed: () => printed,
    end,
  };
}

/** Sends a signal to a process that may have ended. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

/** The scorers that a process has started, by their process IDs. */
export function scorersOf(parent: number): number[] {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return processes.map(Number).filter((pid) => {
    try {
      const [state, ppid] = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
      const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1');
      return state !== 'Z' && Number(ppid) === parent && command.includes('scorerProcess');
    } catch {
      // It has ended meanwhile.
      return false;
    }
  });
}
