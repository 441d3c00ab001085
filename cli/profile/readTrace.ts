import { readFile } from 'node:fs/promises';
import { systemReason } from '../fileErrors.ts';
import { type Arrivals, traceArrivals } from './settings/arrivals.ts';

const MOST_LINES = 50_000;

/**
 * Messages that came at the times in a file: one a line, seconds since 1970 or ISO 8601, in any order.
 *
 * @throws Error naming the file, the line and what is wrong with it
 */
export async function readTrace(path: string): Promise<Arrivals> {
  const lines = (await textOf(path)).split('\n').map((line) => line.trim());
  const times = Float64Array.from(
    lines.flatMap((line, index) => (line === '' ? [] : [timeOf(line, `${path}:${index + 1}`)])),
  ).sort();
  if (times.length > MOST_LINES) {
    throw new Error(`${path}: expected at most ${MOST_LINES} times, got ${times.length}; cut out the busiest part`);
  }
  if (times.length < 2 || times[0] === times.at(-1)) {
    throw new Error(`${path}: expected two times that differ, or more, got ${times.length}; give one a line`);
  }
  return traceArrivals(times);
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    const reason = systemReason(cause) ?? String(cause);
    throw new Error(`${path}: expected a file of times, got: ${reason}; check the path`, { cause });
  }
}

const ISO_DATE = /^\d{4}-\d{2}-\d{2}T/;

/** Milliseconds since 1970. */
function timeOf(line: string, where: string): number {
  const ms = ISO_DATE.test(line) ? Date.parse(line) : Number(line) * 1000;
  if (Number.isFinite(ms)) return ms;
  throw new Error(
    `${where}: expected seconds since 1970 or a time as ISO 8601, got '${line.slice(0, 40)}'; correct it`,
  );
}
