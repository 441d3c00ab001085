import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseOptions, runCommand, type Streams, wholeNumber } from '../cli/arguments.ts';

const HELP = `Usage: npm run bench:jobs -- [options]

Scores files as a job does, on this machine: the disk stands for S3, one process scores all parts one
after the other. Compares with batchscore score, and the memory of a large file with that of a small
one. Start it with taskset -c 0 for one core.

  --mib N         MiB of digits whose speed is compared (default 64)
  --times N       how often each is run, in turns; the least time counts (default 3)
  --file FILE     a file of one's own instead, JSON lines, CSV or Parquet: its rows a second, and the memory
  --model FOLDER  the model of that file (default models/digits, with the columns p0 to p63)
  --memory        the peak memory of 1 GiB against 128 MiB, instead
`;

const DIGITS = 'models/digits';
const JOB = fileURLToPath(new URL('./jobs/oneJob.ts', import.meta.url));
const SCORE = fileURLToPath(new URL('../cli/batchscore.ts', import.meta.url));

async function benchJobs(args: readonly string[], { stdout }: Streams): Promise<number> {
  const print = (line: string): void => void stdout.write(`${line}\n`);
  const options = parseOptions(args, {
    mib: { type: 'string', default: '64' },
    times: { type: 'string', default: '3' },
    file: { type: 'string' },
    model: { type: 'string', default: DIGITS },
    memory: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  });
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-jobs-'));
  try {
    const times = wholeNumber('--times', options.times, 1, 100);
    if (options.help) stdout.write(HELP);
    else if (options.memory) await compareMemory(folder, print);
    else if (options.file !== undefined) measureFile(options.model, options.file, times, print);
    else await compareSpeed(folder, wholeNumber('--mib', options.mib, 1, 4096), times, print);
  } finally {
    rmSync(folder, { recursive: true });
  }
  return 0;
}

async function compareSpeed(folder: string, mib: number, times: number, print: Print): Promise<void> {
  const file = join(folder, 'rows.jsonl');
  const few = join(folder, 'few.jsonl');
  await writeRows(file, mib);
  await writeRows(few, 0);
  const score = (input: string): Run => run([SCORE, 'score', DIGITS, input, '--out', `${input}.out`, '--json']);
  const job = (input: string): Run => run([JOB, DIGITS, input]);
  const scored: Run[] = [];
  const jobs: Run[] = [];
  const starts: { readonly score: number; readonly job: number }[] = [];
  for (let time = 0; time < times; time++) {
    scored.push(score(file));
    jobs.push(job(file));
    starts.push({ score: score(few).processSeconds, job: job(few).processSeconds });
  }
  const [ofScore, ofJob] = [leastOf(scored), leastOf(jobs)];
  // What a start takes is none of what a row takes.
  const ofRows = (one: Run, start: number[]): number => one.processSeconds - Math.min(...start);
  print(`batchscore score ${describe(ofScore)}`);
  print(`a job ${describe(ofJob)}`);
  const share = (one: number, other: number): string => (one / other).toFixed(2);
  print(
    `a job does ${share(ofScore.seconds, ofJob.seconds)} of its rows a second, ` +
      `${share(
        ofRows(
          ofScore,
          starts.map((start) => start.score),
        ),
        ofRows(
          ofJob,
          starts.map((start) => start.job),
        ),
      )} by processor time, less that of a start`,
  );
}

async function compareMemory(folder: string, print: Print): Promise<void> {
  const peaks: number[] = [];
  for (const mib of [128, 1024]) {
    const file = join(folder, `${mib}.jsonl`);
    await writeRows(file, mib, 'x'.repeat(4_000));
    const one = run([JOB, DIGITS, file]);
    peaks.push(one.peakMib);
    print(`${mib} MiB: ${describe(one)}`);
    rmSync(file);
  }
  const [small = 1, large = 0] = peaks;
  print(`${(large / small).toFixed(2)} times the memory`);
}

type Print = (line: string) => void;

function measureFile(model: string, file: string, times: number, print: Print): void {
  print(describe(leastOf(Array.from({ length: times }, () => run([JOB, model, file])))));
}

interface Run {
  readonly rows: number;
  /** Of scoring alone. */
  readonly seconds: number;
  /** Of all processors, in a job: of scoring alone. */
  readonly cpuSeconds?: number;
  /** Of all processors, from the start of the process to its end. */
  readonly processSeconds: number;
  readonly peakMib: number;
}

/** Printed by each process at its end, in microseconds and KiB. */
const AT_END = `import { isMainThread } from 'node:worker_threads'; if (isMainThread) process.on('exit', () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  process.stderr.write('\\n' + JSON.stringify([userCPUTime + systemCPUTime, maxRSS]));
})`;

/** In a process of its own, whose memory and time are its own. */
function run(args: readonly string[]): Run {
  const imported = ['--import', `data:text/javascript,${encodeURIComponent(AT_END)}`];
  const { stdout, stderr, status } = spawnSync(process.execPath, [...imported, ...args], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  const [microseconds, kib] = JSON.parse(stderr.slice(stderr.lastIndexOf('\n') + 1));
  return { ...JSON.parse(stdout), processSeconds: microseconds / 1e6, peakMib: kib / 1024 };
}

/** The least of each time: whatever else the machine did is in none of them, or in all. */
function leastOf(runs: readonly Run[]): Run {
  const [first] = runs;
  if (first === undefined) throw new Error('expected a run');
  const min = (timeOf: (one: Run) => number | undefined): number => Math.min(...runs.map((one) => timeOf(one) ?? 0));
  return {
    rows: first.rows,
    seconds: min(({ seconds }) => seconds),
    ...(first.cpuSeconds !== undefined && { cpuSeconds: min(({ cpuSeconds }) => cpuSeconds) }),
    processSeconds: min(({ processSeconds }) => processSeconds),
    peakMib: Math.max(...runs.map(({ peakMib }) => peakMib)),
  };
}

function describe({ rows, seconds, cpuSeconds, processSeconds, peakMib }: Run): string {
  const perSecond = (time: number): string => `${Math.round(rows / time)} rows/s`;
  const ofScoring = cpuSeconds === undefined ? '' : `, ${perSecond(cpuSeconds)} of processor time`;
  return `${rows} rows: ${perSecond(seconds)}${ofScoring}; ${processSeconds.toFixed(1)} s of processor time in all, ${Math.round(peakMib)} MiB`;
}

const SAMPLES = new URL('../models/digits/held-out.jsonl', import.meta.url);
const MIB = 1024 * 1024;

/**
 * Requests for digits, one a line, until the file is as large as it should be.
 *
 * @param pad makes each line longer: fewer rows take less time, and memory goes by bytes. @default none
 */
async function writeRows(file: string, mib: number, pad?: string): Promise<void> {
  const samples = readFileSync(SAMPLES, 'utf8').trimEnd().split('\n');
  const lines = samples.map((line, index) => {
    const { pixels } = JSON.parse(line) as { readonly pixels: readonly number[] };
    const data = pixels.map((pixel) => pixel + 0.125 * (index % 8));
    const inputs = [{ name: 'image', datatype: 'FP32', shape: [1, 64], data }];
    return `${JSON.stringify({ id: `digit-${index}`, inputs, ...(pad && { parameters: { pad } }) })}\n`;
  });
  const block = lines.join('');
  const handle = await open(file, 'w');
  try {
    for (let bytes = 0; bytes <= mib * MIB; bytes += block.length) await writeFile(handle, block);
  } finally {
    await handle.close();
  }
}

if (import.meta.main) await runCommand(benchJobs);
