import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { REPOSITORY } from './command.ts';
import { afterThisTest } from './openModels.ts';

const ENTRY = fileURLToPath(new URL('../../lambda/worker.ts', import.meta.url));
const OF_ECS = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface WorkerProcess {
  readonly pid: number | undefined;
  /** Waits for a line of the log with this text. @returns the line, parsed */
  says(text: string): Promise<Record<string, unknown>>;
  send(signal: NodeJS.Signals): void;
  readonly ended: Promise<Ended>;
  printed(): string;
}

/** `lambda/worker.ts` in a process of its own, with nothing but environment variables. It is killed after the test. */
export function startWorkerProcess(
  variables: Readonly<Record<string, string>>,
  cleanUp = afterThisTest,
): WorkerProcess {
  const child = spawn(process.execPath, [ENTRY], {
    cwd: REPOSITORY,
    env: { PATH: process.env.PATH, ...OF_ECS, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  const readers = [child.stdout, child.stderr].map((input) => createInterface({ input }));
  for (const reader of readers) reader.on('line', (line) => lines.push(line));
  const ended = once(child, 'close').then(([code, signal]): Ended => ({ code, signal }));
  cleanUp(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return {
    pid: child.pid,
    async says(text) {
      const died = ended.then((): never => {
        throw new Error(`expected '${text}' from the worker, it ended:\n${lines.join('\n')}`);
      });
      died.catch(() => {});
      for (;;) {
        const line = lines.find((one) => one.includes(text));
        if (line !== undefined) return JSON.parse(line);
        await Promise.race([...readers.map((reader) => once(reader, 'line')), died]);
      }
    },
    send: (signal) => void child.kill(signal),
    ended,
    printed: () => lines.join('\n'),
  };
}
