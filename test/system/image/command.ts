import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** Commands keep their temporary files where the machine keeps them: some mount what must not be deleted with a folder. */
export const ENVIRONMENT = { ...process.env };

const MAX_OUTPUT_BYTES = 2 ** 26;
const LINES_TOLD = 30;

/**
 * Runs a command to its end.
 *
 * @returns what it printed
 * @throws Error with the end of what it printed
 */
export async function run(command: string, args: readonly string[], cwd?: string): Promise<string> {
  try {
    const { stdout } = await execute(command, [...args], { maxBuffer: MAX_OUTPUT_BYTES, cwd, env: ENVIRONMENT });
    return stdout.trim();
  } catch (cause) {
    throw new Error(`${command} ${args[0]}: ${endOfOutput(cause)}`, { cause });
  }
}

function endOfOutput(error: unknown): string {
  const { stdout = '', stderr = '', message } = error as Error & { stdout?: string; stderr?: string };
  const lines = `${stdout}\n${stderr}`.trim().split('\n');
  return lines.slice(-LINES_TOLD).join('\n') || message;
}

const cleanups: (() => void)[] = [];

/** Cleans up when this process ends, however it does: what came last goes first, and what is gone already is no harm. */
export function atExit(cleanUp: () => void): void {
  cleanups.unshift(cleanUp);
}

process.once('exit', () => {
  for (const cleanUp of cleanups) {
    try {
      cleanUp();
    } catch {}
  }
});
process.once('SIGINT', () => process.exit(130));
process.once('SIGTERM', () => process.exit(143));

/** Runs a command when this process ends. */
export function runAtExit(command: string, ...args: readonly string[]): void {
  atExit(() => execFileSync(command, args, { stdio: 'ignore', env: ENVIRONMENT }));
}

/** @returns seconds that the work took, to a tenth */
export async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return secondsSince(startedAt);
}

/** @returns seconds, to a tenth */
export function secondsSince(startedAt: number): number {
  return Math.round((performance.now() - startedAt) / 100) / 10;
}
