import type { Started, StartTask, Target } from './messages.ts';
import { type Crash, describeCrash, runChild } from './runChild.ts';

export interface Starts {
  readonly started: Started;
  /** Medians, of one start each. */
  readonly coldStart: {
    readonly processMs: number;
    readonly libraryMs: number;
    readonly loadMs: number;
    readonly warmUpMs: number;
  };
  /** What a host would warn of, and what else it came to. */
  readonly findings: readonly string[];
}

const AS_DEPLOYED = { isLimited: false, isThorough: false };
const STARTS = 3;

/**
 * Starts a model as a host does, each time in a process of its own. Where that ends the process, it is started with runs of
 * one row.
 *
 * @param longMs a start that takes longer is not repeated
 * @param onProgress told the share of the starts that is done
 * @throws Error saying what a host would refuse, or why the model cannot be started
 */
export async function startOften(target: Target, longMs: number, onProgress: (share: number) => void): Promise<Starts> {
  const warnings: string[] = [];
  const warn = (warning: string): void => void warnings.push(warning);
  const first = await startOnce({ ...target, ...AS_DEPLOYED }, warn);
  if ('by' in first) return startedWithOneRow(target, first);
  const all = [first];
  while (all.length < STARTS && totalMs(first) < longMs) {
    onProgress(all.length / STARTS);
    const again = await startOnce({ ...target, ...AS_DEPLOYED });
    if ('by' in again) break;
    all.push(again);
  }
  return { started: first, coldStart: mediansOf(all), findings: warnings };
}

/**
 * One start in a process of its own.
 *
 * @param warn told what a host would warn of
 * @returns what ended it, where it was not started
 */
export async function startOnce(
  task: Omit<StartTask, 'do' | 'askedAt'>,
  warn: (message: string) => void = () => {},
): Promise<Started | Crash> {
  let started: Started | undefined;
  const askedAt = performance.timeOrigin + performance.now();
  const crash = await runChild({ ...task, do: 'start', askedAt }, (told) => {
    if (told.kind === 'warning') warn(told.text);
    if (told.kind === 'started') ({ started } = told);
  });
  if (started !== undefined) return started;
  return crash ?? { by: 'nothing that it told', said: '' };
}

async function startedWithOneRow(target: Target, crash: Crash): Promise<Starts> {
  const started = await startOnce({ ...target, maxBatchRows: 1, isLimited: true, isThorough: false });
  if ('by' in started) {
    throw new Error(`${target.path}: expected the model to start, its process ended (${describeCrash(started)})`);
  }
  const finding =
    `a start with runs of up to ${target.maxBatchRows} rows ended its process (${describeCrash(crash)}), as it would end a ` +
    'host: the checks of rows ran more of them than the model survives';
  return {
    started: { ...started, mostRows: target.maxBatchRows },
    coldStart: mediansOf([started]),
    findings: [finding],
  };
}

function totalMs({ start: { processMs, libraryMs, loadMs, warmUpMs } }: Started): number {
  return processMs + libraryMs + loadMs + warmUpMs;
}

function mediansOf(all: readonly Started[]): Starts['coldStart'] {
  const medianOf = (part: keyof Starts['coldStart']): number => {
    const sorted = all.map(({ start }) => start[part]).toSorted((a, b) => a - b);
    return sorted[sorted.length >> 1] as number;
  };
  return {
    processMs: medianOf('processMs'),
    libraryMs: medianOf('libraryMs'),
    loadMs: medianOf('loadMs'),
    warmUpMs: medianOf('warmUpMs'),
  };
}
