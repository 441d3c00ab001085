import { writeFileSync } from 'node:fs';
import process from 'node:process';
import type { Writable } from 'node:stream';

/** A reader that takes nothing any more must not keep the process. */
const FLUSH_LIMIT_MS = 2_000;

/**
 * Ends the process, whatever its threads are doing. `process.exit` waits for every thread, and one that is inside of
 * ONNX Runtime cannot be stopped: it would wait for a stuck run for ever. A process that becomes another one loses its
 * threads and keeps its exit code. Where Node cannot do that (in a worker thread, on Windows, before 22.15), it is killed.
 *
 * @see https://nodejs.org/api/process.html#processexecvefile-args-env
 */
export async function endProcess(code: number): Promise<never> {
  const outOfTime = new Promise((resolve) => setTimeout(resolve, FLUSH_LIMIT_MS));
  await Promise.race([Promise.all([flushed(process.stdout), flushed(process.stderr)]), outOfTime]);
  return endProcessNow(code);
}

/** The same without waiting for what is still to be written. */
export function endProcessNow(code: number): Promise<never> {
  try {
    // Nothing but the end is to happen in the new process.
    const { NODE_OPTIONS: _, ...env } = process.env;
    process.execve?.(process.execPath, [process.execPath, '--eval', `process.exit(${code})`], env);
  } finally {
    process.kill(process.pid, 'SIGKILL');
  }
  return new Promise(() => {});
}

function flushed(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    // Also where the reader has gone away.
    stream.once('error', () => resolve());
    stream.write('', () => resolve());
  });
}

/**
 * Has the system end this process before others when memory ends, where it can be asked to.
 *
 * @see https://man7.org/linux/man-pages/man5/proc_pid_oom_score_adj.5.html
 */
export function goFirstWhenMemoryEnds(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000');
  } catch {}
}
