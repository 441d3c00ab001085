import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseOptions, runCommand, type Streams, wholeNumber } from '../cli/arguments.ts';
import { figure } from './harness/report.ts';
import { takeTurns } from './harness/turns.ts';

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
const JOB = fileURLToPath(new URL('./contestants/oneJob.ts', import.meta.url));
const SCORE = fileURLToPath(new URL('../cli/batchscore.ts', import.meta.url));

async function benchJobs(args: readonly string[], { stdout }: Streams): Promise<number> {
  const print = (line: string): void => void stdout.write(`${line}\n`);
  const options = parseOptions(args, {
    mib: { type: 'string', default: '64' },
    times: { type: 'string', default: '3' },
    file: { type: 'string' },
    model: { type: 'string', default: DIGITS },
    memory: { type: 'boolean', default: false },
  });
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-jobs-'));
  try {
    const times = wholeNumber('--times', options.times, 1, 100);
    if (options.memory) await compareMemory(folder, print);
    else if (options.file !== undefined) await measureFile(options.model, options.file, times, print);
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
  const score = (input: string) => async () => run([SCORE, 'score', DIGITS, input, '--out', `${input}.out`, '--json']);
  const job = (input: string) => async () => run([JOB, DIGITS, input]);
  const turns = await takeTurns([score(file), job(file), score(few), job(few)], times);
  const [ofScore, ofJob, ofScoreStart, ofJobStart] = turns.map(minOf) as [Run, Run, Run, Run];
  print(`batchscore score ${describe(ofScore)}`);
  print(`a job ${describe(ofJob)}`);
  // What a start takes is none of what a row takes.
  const scoreRowsSeconds = ofScore.processSeconds - ofScoreStart.processSeconds;
  const jobRowsSeconds = ofJob.processSeconds - ofJobStart.processSeconds;
  print(
    `a job does ${figure(ofScore.seconds / ofJob.seconds)} of its rows a second, ` +
      `${figure(scoreRowsSeconds / jobRowsSeconds)} by processor time, less that of a start`,
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
  print(`${figure(large / small)} times the memory`);
}

type Print = (line: string) => void;

async function measureFile(model: string, file: string, times: number, print: Print): Promise<void> {
  const [runs = []] = await takeTurns([async () => run([JOB, model, file])], times);
  print(describe(minOf(runs)));
}

interface Run {
  readonly rows: number;
  /** Of scoring alone. */
  readonly seconds: number;
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
function minOf(runs: readonly Run[]): Run {
  return {
    rows: runs[0]?.rows ?? 0,
    seconds: Math.min(...runs.map(({ seconds }) => seconds)),
    processSeconds: Math.min(...runs.map(({ processSeconds }) => processSeconds)),
    peakMib: Math.max(...runs.map(({ peakMib }) => peakMib)),
  };
}

function describe({ rows, seconds, processSeconds, peakMib }: Run): string {
  return `${rows} rows: ${Math.round(rows / seconds)} rows/s; ${processSeconds.toFixed(1)} s of processor time in all, ${Math.round(peakMib)} MiB`;
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

if (import.meta.main) await runCommand(benchJobs, HELP);
