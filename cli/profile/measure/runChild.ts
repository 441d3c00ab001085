import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Task, Told } from './messages.ts';

/** What ended a process that was not done: a signal, such as `SIGKILL`, or an exit code. */
export interface Crash {
  readonly by: string;
  /** What it last wrote, in one line. */
  readonly said: string;
}

const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const CHILD = fileURLToPath(new URL(`./child.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));
const MOST_CHARACTERS = 2_000;
/** A process that tells nothing for so long is taken to hang. */
const SILENT_MS = 120_000;

/**
 * Has a process of its own do a task.
 *
 * @param onTold hears all that it tells
 * @returns why it ended before it was done; undefined where it did not
 * @throws Error that it told
 */
export async function runChild(task: Task, onTold: (told: Told) => void): Promise<Crash | undefined> {
  const child = fork(CHILD, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], serialization: 'advanced' });
  let [said, message] = ['', undefined as string | undefined];
  let isHanging = false;
  const hang = (): void => {
    isHanging = true;
    child.kill('SIGKILL');
  };
  let silence = setTimeout(hang, SILENT_MS);
  child.stderr?.setEncoding('utf8').on('data', (chunk) => {
    said = `${said}${chunk}`.slice(-MOST_CHARACTERS);
  });
  child.on('message', (told: Told) => {
    clearTimeout(silence);
    silence = setTimeout(hang, SILENT_MS);
    if (told.kind === 'error') ({ message } = told);
    else onTold(told);
  });
  // A process that has just died takes no task: its end says why.
  child.send(task, () => {});
  const [code, signal] = await once(child, 'close');
  clearTimeout(silence);
  if (message !== undefined) throw new Error(message);
  if (code === 0) return undefined;
  const by = isHanging ? `no sign of life for ${SILENT_MS / 1000} s` : (signal ?? `exit code ${code}`);
  return { by, said: said.trim().split('\n').at(-1) ?? '' };
}

export function describeCrash({ by, said }: Crash): string {
  const known = by === 'SIGKILL' ? 'SIGKILL, as the system ends a process when memory ends' : by;
  return said === '' ? known : `${known}: ${said}`;
}
