import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import module from 'node:module';
import { Socket } from 'node:net';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { RUNTIME_TELEMETRY_OFF } from '../settings.ts';

/* Start, pipes, memory and end of a scorer's process. */

export interface ScorerSystemProcess {
  readonly child: ChildProcess;
  /** Frames in both directions. */
  readonly frames: Socket;
  /** Reports before work begins. */
  readonly blames: Socket;
  /** True if a shell limits the memory of the process. */
  readonly isLimited: boolean;
}

export interface Ended {
  readonly how: string;
  readonly signal?: NodeJS.Signals | undefined;
}

/** Maximum time to read the last output of a process, because its children may keep the pipes open. */
const LAST_WORDS_MS = 500;
const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const SCORER_FILE = fileURLToPath(new URL(`./scorerProcess.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));
const SHELL = '/bin/sh';
/** Node cannot limit its own memory, so a shell does, and becomes Node. Some shells have no such limit. */
const LIMITED = 'ulimit -d "$0" 2>/dev/null; exec "$@"';
/**
 * Keeps V8 from taking 128 MB for new objects in each thread. Runs get no slower, because most memory is in tensors. A
 * flag of the host counts more.
 */
const FEW_NEW_OBJECTS = '--max-semi-space-size=16';
/** Reserved memory counts as data: V8 reserves 0.6 GiB for each thread, and each model has one thread. */
const RESERVED_BYTES = 32 * 1024 ** 3;

export const NO_SHELL = `${SHELL}: expected a shell that limits the memory of the scorer, got none; a run that takes all memory may end other processes, too`;

/**
 * Starts a process.
 *
 * @param maxBytes limit of its memory
 * @throws Error if the system cannot start one
 */
export function spawnScorer(maxBytes: number): ScorerSystemProcess {
  const isLimited = process.platform !== 'win32' && existsSync(SHELL);
  // The scorer must not inherit a script on the command line or a debugger.
  const flags = process.execArgv.filter(
    (flag, index, all) => !OF_THIS_PROCESS.test(flag) && !SCRIPT.test(all[index - 1] ?? ''),
  );
  const node = [process.execPath, FEW_NEW_OBJECTS, ...flags, SCORER_FILE];
  const limit = String(Math.round((maxBytes + RESERVED_BYTES) / 1024));
  const [command = '', ...args] =
    isLimited && Number.isFinite(maxBytes) ? [SHELL, '-c', LIMITED, limit, ...node] : node;
  const child = spawn(command, args, {
    // Output of a transform must not mix with results.
    stdio: ['ignore', STDERR, 'inherit', 'overlapped', 'overlapped'],
    env: { ...process.env, ...compileCache(), [RUNTIME_TELEMETRY_OFF]: '1' },
  });
  child.on('error', () => {});
  // Errors of a pipe show as the end of the process, or as a missing pid.
  for (const pipe of child.stdio ?? []) pipe?.on('error', () => {});
  if (child.pid === undefined) throw new Error('expected the system to start a process for the models, it did not');
  const [, , , frames, blames] = child.stdio;
  if (!(frames instanceof Socket && blames instanceof Socket)) throw new Error('scorer has no pipes');
  return { child, frames, blames, isLimited };
}

/** Makes the scorer use the host's compile cache. Node adds a subfolder for its version itself. */
function compileCache(): Record<string, string> {
  const folder = module.getCompileCacheDir?.();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}

const STDERR = 2;
/** Flags with a script after them, and flags for one process only. */
const SCRIPT = /^(-e|--eval|-p|--print|-pe)$/;
const OF_THIS_PROCESS =
  /^(-e|--eval(=.*)?|-p|--print|-pe|-i|--interactive|--input-type.*|--inspect.*|--watch.*|--test.*)$/;

/** Returns true if the system has stopped the process, for example by SIGSTOP or a freezer. */
export function isStopped(pid: number | undefined): boolean {
  const [state] = statOf(pid, 'stat')?.split(') ').at(-1) ?? '';
  return state === 'T' || state === 't';
}

const PAGE_BYTES = 4096;

/** Returns the resident bytes of a process, or 0 if unknown. */
export function heldBytes(pid: number | undefined): number {
  return Number(statOf(pid, 'statm')?.split(' ')[1] ?? 0) * PAGE_BYTES;
}

/** @see https://man7.org/linux/man-pages/man5/proc.5.html */
function statOf(pid: number | undefined, file: 'stat' | 'statm'): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return undefined;
  }
}

/** Resolves when the process has ended and its output is read. */
export async function endOf({ child, frames, blames }: ScorerSystemProcess): Promise<Ended> {
  const pipes = [frames, blames];
  const exited = Promise.withResolvers<Ended>();
  if (child.exitCode !== null || child.signalCode !== null) exited.resolve(howOf(child.exitCode, child.signalCode));
  child.once('exit', (code, signal) => {
    exited.resolve(howOf(code, signal));
  });
  const drained = pipes.map((pipe) => new Promise((resolve) => pipe.once('close', resolve)));
  const end = await exited.promise;
  const overdue = Promise.withResolvers<void>();
  const timer = setTimeout(overdue.resolve, LAST_WORDS_MS);
  await Promise.race([Promise.all(drained), overdue.promise]);
  clearTimeout(timer);
  for (const pipe of pipes) pipe.destroy();
  return end;
}

function howOf(code: number | null, signal: NodeJS.Signals | null): Ended {
  return signal === null ? { how: `ended with code ${code}` } : { how: `was ended by ${signal}`, signal };
}
