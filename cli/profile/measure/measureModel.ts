import { fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { plural } from '../../../lambda/core/failure.ts';
import { locate } from '../../../lambda/onnx/findModels.ts';
import { checkModelFile } from '../../../lambda/onnx/modelFile.ts';
import { type ProfileFile, runtimeVersion, thisMachine } from '../../../lambda/onnx/profileFile.ts';
import { powersOfTwoUpTo } from '../../../lambda/onnx/warmUp.ts';
import { modelDigest } from '../../../lambda/onnx/weights.ts';
import { ownVersion } from '../../arguments.ts';
import { duration } from '../../format.ts';
import type { Started, Told } from './childTasks.ts';
import type { Ran, RunTask, Size, Target, Task, Timed } from './measureTasks.ts';

/** Measurement of a model, as `profile.json` stores it. */
export interface Measurement extends Omit<ProfileFile, 'schemaVersion' | 'recommendation'> {
  readonly path: string;
  /** Bytes of a real request. Undefined if there are no samples. */
  readonly requestBytes: number | undefined;
}

export interface MeasureOptions {
  readonly maxBatchRows: number;
  /** Execution providers, first choice first. */
  readonly providers: readonly string[];
  /** Maximum time for timing, except for runs that have started. */
  readonly seconds: number;
  readonly onProgress: (share: number) => void;
}

/** Progress after the start. */
const STARTED = 0.1;
/** Minimum rounds of a size. The sizes double, so that all sizes up to one take twice its time. */
const ROUNDS = 7;
const MIN_SLOW_MS = 100;

/**
 * Measures a model on this machine, in child processes: its start, the sizes at which it runs and their memory, the
 * independence of its rows, and the run times.
 *
 * @param path a model folder or a `.onnx` file
 * @throws Error if the model cannot be opened or does not run
 */
export async function measureModel(path: string, options: MeasureOptions): Promise<Measurement> {
  const { maxBatchRows, providers, seconds, onProgress } = options;
  checkModelFile((await locate(path)).path);
  const target: Target = { path, maxBatchRows, providers };

  const findings: string[] = [];
  const find: Find = (finding) => void findings.push(finding);
  const started = await start(target, find);
  onProgress(STARTED);
  const table = await measureRuns(target, started, 1000 * seconds, find, (share) =>
    onProgress(STARTED + share * (1 - STARTED)),
  );
  const lengths = table.map(({ length }) => length);
  return {
    model: started.model,
    version: started.version,
    path: started.path,
    digest: await modelDigest(started.path),
    date: new Date().toISOString(),
    machine: thisMachine(),
    provider: started.provider,
    versions: { batchscore: ownVersion(), node: process.versions.node, onnxruntime: runtimeVersion() },
    threads: table.some((run) => run.threads === started.threads) ? started.threads : (table[0]?.threads ?? 1),
    // If ordinary rows do not run, this is the longest length that does.
    length: lengths.includes(started.length) ? started.length : Math.max(...lengths),
    safety: started.safety,
    coldStart: started.start,
    table,
    findings,
    requestBytes: started.requestBytes,
  };
}

/** Takes a sentence about a warning of the host, a failure, or a size that could not be measured. */
type Find = (finding: string) => void;

/**
 * Starts a model as a host does.
 *
 * @param find takes the warnings of a host
 * @throws Error with the reason that a host would refuse the model, or that it cannot start
 */
async function start(target: Target, find: Find): Promise<Started> {
  let started: Started | undefined;
  const askedAt = performance.timeOrigin + performance.now();
  const crash = await runChild({ ...target, do: 'start', askedAt }, (told) => {
    if (told.kind === 'warning') find(told.text);
    if (told.kind === 'started') ({ started } = told);
  });
  if (started !== undefined) return started;
  throw new Error(
    `${target.path}: expected the model to start, its process ended${crash && ` (${describeCrash(crash)})`}, as a host's ` +
      'would; if fewer rows in a run help, give --max-rows and set "maxBatchRows" in config.json',
  );
}

/** Findings of a process about sizes. */
type Runs = Awaited<ReturnType<typeof runOnce>>;

/**
 * Measures runs with each number of threads, in one process for each number. If a size ends the process, it starts
 * another process without that size and those with more rows of its length.
 *
 * @param enoughMs total time of the timing. After it, only runs in progress finish.
 * @param onProgress takes the share of the work that is done
 * @throws Error if the model does not run, or no run could be timed
 */
async function measureRuns(
  target: Target,
  started: Started,
  enoughMs: number,
  find: Find,
  onProgress: (share: number) => void,
): Promise<Measurement['table']> {
  const { allowedSizes, maxRows, lengths, safety, requestBytes } = started;
  const counts = threadCounts(started);
  const rowCounts = !safety.sharesRuns ? [1] : allowedSizes.length > 0 ? allowedSizes : powersOfTwoUpTo(maxRows);
  let slowMs = Math.max(MIN_SLOW_MS, enoughMs / (counts.length * ROUNDS * 2 * lengths.length));
  let sizes = rowCounts.flatMap((rows) => lengths.map((length) => ({ rows, length })));
  const peaks = new Map<string, number>();
  const all: (Timed & { readonly threads: number })[] = [];
  for (const [index, threads] of counts.entries()) {
    for (let isDone = false; !isDone; ) {
      const task: RunTask = {
        ...target,
        do: 'run',
        sizes,
        allowedSizes,
        threads,
        slowMs,
        enoughMs: enoughMs / counts.length,
      };
      const runs = await runOnce(task, (share) => onProgress((index + share) / counts.length));
      const { ran, timed, crash } = runs;
      if (ran.length === 0) throw new Error(runsAtNothing(runs, requestBytes === undefined));
      findingsOf(runs, slowMs, rowCounts, lengths.length > 1).forEach(find);
      for (const { peakRssBytes, ...size } of ran) if (index === 0) peaks.set(keyOf(size), peakRssBytes);
      sizes = sizes.filter((size) => ran.some((one) => isSame(one, size)));
      // From here on, the sizes are known.
      slowMs = Number.POSITIVE_INFINITY;
      all.push(...timed.map((one) => ({ ...one, threads })));
      isDone = crash === undefined || crash.size === undefined;
    }
  }
  // A size that fails with one number of threads is omitted from all, so that all have the same sizes.
  const table = all.filter((one) => sizes.some((size) => isSame(size, one)));
  if (table.length === 0) throw new Error('expected runs that can be timed, got none');
  const unstable = table.filter(({ isStable }) => !isStable).length;
  if (unstable > 0) {
    find(
      `the medians of ${unstable} of ${table.length} sizes were not stable within the time: allow more with --seconds, ` +
        'and leave the machine alone meanwhile',
    );
  }
  return table.map(({ isStable: _, ...run }) => ({
    ...run,
    rowsPerSecond: (1000 * run.rows) / run.medianMs,
    peakRssBytes: peaks.get(keyOf(run)) as number,
  }));
}

function keyOf({ rows, length }: Size): string {
  return `${rows} ${length}`;
}

function isSame(one: Size, other: Size): boolean {
  return keyOf(one) === keyOf(other);
}

async function runOnce(task: RunTask, onProgress: (share: number) => void) {
  const ran: Ran[] = [];
  const failed: { size: Size; reason: string }[] = [];
  let timed: readonly Timed[] = [];
  let trying: Size | undefined;
  const crash = await runChild(task, (told) => {
    if (told.kind === 'trying') trying = told.size;
    if (told.kind === 'ran') ran.push(told.ran);
    if (told.kind === 'failed') failed.push(told);
    if (told.kind === 'timed') ({ timed } = told);
    if (told.kind === 'progress') {
      // All sizes have run.
      trying = undefined;
      onProgress(told.share);
    }
  });
  return { ran, failed, timed, crash: crash && { ...crash, size: trying } };
}

/** Returns sentences about sizes that were not measured. */
function findingsOf(
  { ran, failed, crash }: Runs,
  slowMs: number,
  rowCounts: readonly number[],
  hasLengths: boolean,
): string[] {
  const of = ({ rows, length }: Size): string => `${plural(rows, 'row')}${hasLengths ? ` of length ${length}` : ''}`;
  const cureOf = ({ rows }: Size): string => {
    const fewer = rowCounts[rowCounts.indexOf(rows) - 1];
    return fewer === undefined ? '' : `; set "maxBatchRows" to ${fewer} in config.json`;
  };
  const [first] = failed;
  const slow = ran.find(({ runMs }) => runMs > slowMs);
  const run = crash?.size === undefined ? 'a run of one size after others' : `a run of ${of(crash.size)}`;
  return [
    ...(first ? [`a run of ${of(first.size)} failed: ${first.reason}${cureOf(first.size)}`] : []),
    ...(crash
      ? [
          `${run} ended its process (${describeCrash(crash)}), as it would end a host${crash.size ? cureOf(crash.size) : ''}`,
        ]
      : []),
    ...(slow ? [`runs of more than ${of(slow)} were not tried: one took ${duration(slow.runMs)}`] : []),
  ];
}

function runsAtNothing({ failed: [first], crash }: Runs, isMadeUp: boolean): string {
  if (crash !== undefined) return `expected the model to run, its process ended (${describeCrash(crash)})`;
  return (
    `expected the model to run with ${isMadeUp ? 'made-up values' : 'the requests of samples.jsonl'}, got: ` +
    `${first?.reason}; put ${isMadeUp ? 'real requests' : 'others'} into samples.jsonl beside config.json`
  );
}

/**
 * Returns the numbers of threads to measure: one, a few, and all. It returns one number if config.json sets it, or if
 * the model does not run on the CPU.
 */
function threadCounts({ threads, hasGivenThreads, provider }: Started): number[] {
  if (hasGivenThreads || provider !== 'cpu') return [threads];
  const all = availableParallelism();
  return [...new Set([1, 2, 4, all, threads])].filter((count) => count <= all).toSorted((a, b) => a - b);
}

/** Cause of a process's early exit: a signal, such as `SIGKILL`, or an exit code. */
interface Crash {
  readonly by: string;
  /** Last output of the process, in one line. */
  readonly said: string;
}

const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const CHILD = fileURLToPath(new URL(`./measureChild.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));
const MAX_CHARACTERS = 2_000;
/** Time without a message after which a process counts as stuck. */
const SILENT_MS = 120_000;

/**
 * Runs a task in a child process.
 *
 * @param onTold takes the messages of the process
 * @returns the crash if the process ended early, otherwise undefined
 * @throws Error that the process reported
 */
async function runChild(task: Task, onTold: (told: Told) => void): Promise<Crash | undefined> {
  const child = fork(CHILD, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], serialization: 'advanced' });
  let [said, message] = ['', undefined as string | undefined];
  let isHanging = false;
  const hang = (): void => {
    isHanging = true;
    child.kill('SIGKILL');
  };
  let silence = setTimeout(hang, SILENT_MS);
  child.stderr?.setEncoding('utf8').on('data', (chunk) => {
    said = `${said}${chunk}`.slice(-MAX_CHARACTERS);
  });
  child.on('message', (told: Told) => {
    clearTimeout(silence);
    silence = setTimeout(hang, SILENT_MS);
    if (told.kind === 'error') ({ message } = told);
    else onTold(told);
  });
  // A process that has just ended cannot receive the task. Its exit code gives the reason.
  child.send(task, () => {});
  const [code, signal] = await once(child, 'close');
  clearTimeout(silence);
  if (message !== undefined) throw new Error(message);
  if (code === 0) return undefined;
  const by = isHanging ? `no sign of life for ${SILENT_MS / 1000} s` : (signal ?? `exit code ${code}`);
  return { by, said: said.trim().split('\n').at(-1) ?? '' };
}

function describeCrash({ by, said }: Crash): string {
  const known = by === 'SIGKILL' ? 'SIGKILL, as the system ends a process when memory ends' : by;
  return said === '' ? known : `${known}: ${said}`;
}
