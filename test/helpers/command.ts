import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Where stdout goes, in place of what is returned. */
  readonly stdoutFile?: string;
}

/**
 * Runs a script of the repository with this very Node until it ends.
 *
 * ```ts
 * const { code, stdout, stderr } = await runScript('cli/batchscore.ts', ['inspect', path]);
 * ```
 */
export async function runScript(
  script: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<Finished> {
  const child = start(script, args, options);
  const output = { stdout: '', stderr: '' };
  child.stdout?.on('data', (chunk) => {
    output.stdout += chunk;
  });
  child.stderr?.on('data', (chunk) => {
    output.stderr += chunk;
  });
  child.stdin?.end(options.stdin ?? '');
  const [code] = await once(child, 'close');
  return { code, ...output };
}

export interface DevStack {
  readonly endpoint: string;
  readonly region: string;
  readonly requestQueueUrl: string;
  readonly resultQueueUrl: string;
  readonly deadLetterQueueUrl: string;
  readonly payloadBucket: string;
  readonly s3Endpoint: string;
  readonly resultTable?: string;
  readonly dynamodbEndpoint?: string;
  readonly resultBucket?: string;
  readonly jobBucket?: string;
  readonly jobStateMachine?: string;
  readonly sfnEndpoint?: string;
  readonly page?: string;
}

export interface RunningDev {
  readonly stack: DevStack;
  /** The first line on stdout as it was printed. */
  readonly firstLine: string;
  /** Sends SIGINT. @returns the exit code */
  interrupt(): Promise<number | null>;
  /** Waits until a line on stderr matches. @returns it */
  says(pattern: RegExp): Promise<string>;
  send(signal: NodeJS.Signals): void;
  /** How the process ended. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
}

/** Starts `npm run dev`'s script on a free port and waits for its first line. */
export async function startDev(args: readonly string[] = [], options: CommandOptions = {}): Promise<RunningDev> {
  const child = start('cli/dev.ts', ['--port', '0', ...args], options);
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  const messages = createInterface({ input: child.stderr as NodeJS.ReadableStream });
  const said: string[] = [];
  messages.on('line', (line) => said.push(line));
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const [firstLine] = (await once(lines, 'line')) as [string];
  return {
    stack: JSON.parse(firstLine),
    firstLine,
    async interrupt() {
      child.kill('SIGINT');
      return (await ended).code;
    },
    async says(pattern) {
      for (;;) {
        const found = said.find((line) => pattern.test(line));
        if (found !== undefined) return found;
        await once(messages, 'line');
      }
    },
    send: (signal) => void child.kill(signal),
    ended,
  };
}

function start(script: string, args: readonly string[], options: CommandOptions): ChildProcess {
  const { env = {}, cwd = REPOSITORY, stdoutFile } = options;
  const path = fileURLToPath(new URL(`../../${script}`, import.meta.url));
  const stdout = stdoutFile === undefined ? 'pipe' : openSync(stdoutFile, 'w');
  const child = spawn(process.execPath, [path, ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['pipe', stdout, 'pipe'],
  });
  if (typeof stdout === 'number') closeSync(stdout);
  return child;
}
