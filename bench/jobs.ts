import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseOptions, runCommand, wholeNumber } from '../cli/arguments.ts';
import { openModelAlone } from '../lambda/adapters/onnx/repository/openModelAlone.ts';
import { planKey } from '../lambda/core/job/keys.ts';
import type { JobStorage } from '../lambda/core/job/storage.ts';
import type { JobStart, Spec } from '../lambda/core/job/words.ts';
import { finishJob } from '../lambda/jobs/finish/finishJob.ts';
import { planJob } from '../lambda/jobs/plan/planJob.ts';
import { readHead, readParts } from '../lambda/jobs/plan/planObjects.ts';
import { openReader } from '../lambda/jobs/read/openReader.ts';
import { scorePart } from '../lambda/jobs/score/scorePart.ts';
import { createRowScoring, MOST_CHARACTERS_HELD } from '../lambda/jobs/scoreRows.ts';
import { RANGES } from '../lambda/limits/configuration.ts';
import { JOB_RANGES } from '../lambda/limits/jobs.ts';

const HELP = `Usage: npm run bench:jobs -- [options]

Scores files of digits as a job does, on this machine: the disk stands for S3, one process scores all
parts one after the other. Compares with batchscore score, and the memory of a large file with that of
a small one. Start it with taskset -c 0 for one core.

  --mib N         MiB of the file whose speed is compared (default 64)
  --times N       how often each is run, in turns; the median counts (default 3)
  --parquet FILE  a Parquet file with 64 columns p0 to p63: its rows per second
  --memory        the peak memory of 1 GiB against 128 MiB, instead
`;

const MIB = 1024 * 1024;
const SAMPLES = new URL('../models/digits/held-out.jsonl', import.meta.url);
const FOLDER = 'out/job/';
const OWN_FILE = fileURLToPath(import.meta.url);
const SCORE = fileURLToPath(new URL('../cli/batchscore.ts', import.meta.url));

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args, {
    mib: { type: 'string', default: '64' },
    times: { type: 'string', default: '3' },
    parquet: { type: 'string' },
    memory: { type: 'boolean', default: false },
    job: { type: 'string' },
    help: { type: 'boolean', default: false },
  });
  if (options.help) process.stdout.write(HELP);
  else if (options.job !== undefined) await runOneJob(options.job);
  else {
    const folder = mkdtempSync(join(tmpdir(), 'batchscore-jobs-'));
    try {
      const times = wholeNumber('--times', options.times, 1, 100);
      if (options.memory) await compareMemory(folder);
      else if (options.parquet !== undefined) report('Parquet', jobsOf(options.parquet, times));
      else await compareSpeed(folder, wholeNumber('--mib', options.mib, 1, 4096), times);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
  return 0;
}

async function compareSpeed(folder: string, mib: number, times: number): Promise<void> {
  const file = join(folder, 'rows.jsonl');
  await writeRows(file, mib);
  const scored: number[] = [];
  const jobs: number[] = [];
  for (let time = 0; time < times; time++) {
    scored.push(scoreOf(file, join(folder, 'out.jsonl')));
    jobs.push(...jobsOf(file, 1).map(({ rowsPerSecond }) => rowsPerSecond));
  }
  const [ofScore, ofJob] = [median(scored), median(jobs)];
  const share = (ofJob / ofScore).toFixed(2);
  process.stdout.write(
    `batchscore score ${Math.round(ofScore)} rows/s, a job ${Math.round(ofJob)} rows/s: ${share} of it (medians of ${times})\n`,
  );
}

async function compareMemory(folder: string): Promise<void> {
  const peaks: number[] = [];
  for (const mib of [128, 1024]) {
    const file = join(folder, `${mib}.jsonl`);
    await writeRows(file, mib, 'x'.repeat(4_000));
    const [run] = jobsOf(file, 1);
    peaks.push(run?.peakMib ?? 0);
    process.stdout.write(
      `${mib} MiB: ${run?.peakMib.toFixed(0)} MiB at the most, ${Math.round(run?.rowsPerSecond ?? 0)} rows/s\n`,
    );
    rmSync(file);
  }
  const [small = 1, large = 0] = peaks;
  process.stdout.write(`${(large / small).toFixed(2)} times the memory\n`);
}

interface Run {
  readonly rowsPerSecond: number;
  readonly peakMib: number;
}

/** Each in a process of its own, whose memory is its own. */
function jobsOf(file: string, times: number): Run[] {
  return Array.from({ length: times }, () => {
    const { stdout, stderr, status } = spawnSync(process.execPath, [OWN_FILE, '--job', file], { encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
    return JSON.parse(stdout);
  });
}

function scoreOf(file: string, out: string): number {
  const args = [SCORE, 'score', 'models/digits', file, '--out', out, '--json'];
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  const { rows, seconds } = JSON.parse(stdout);
  return rows / seconds;
}

async function runOneJob(file: string): Promise<void> {
  const storage = diskStorage(file);
  const models = await openModelAlone('models/digits', {
    maxBatchRows: RANGES.maxBatchRows.default,
    maxBatchElements: RANGES.maxBatchElements.default,
    providers: ['cpu'],
    allowProviderFallback: false,
    warn: (message) => void process.stderr.write(`${message}\n`),
  });
  const { pieceBytes, partBytes } = JOB_RANGES;
  const spec: Spec = /\.jsonl/.test(file) ? {} : { inputs: { image: Array.from({ length: 64 }, (_, i) => `p${i}`) } };
  const start: JobStart = {
    ...{ job: 'job', run: 1, bucket: 'disk', key: file, etag: 'one', bytes: statSync(file).size },
    ...{ folder: FOLDER, concurrency: 1, spec },
  };
  const sizes = { partBytes: partBytes.default, pieceBytes: pieceBytes.default };
  await planJob({ action: 'plan', start }, { storage, models, ...sizes, now: Date.now });
  const head = await readHead(storage, FOLDER);
  if (head === undefined) throw new Error('expected a plan');
  const limits = {
    maxRequestRows: RANGES.maxRequestRows.default,
    maxRequestsPerMessage: RANGES.maxRequestsPerMessage.default,
    maxAnswerCharacters: 28 * MIB,
    maxBatchElements: RANGES.maxBatchElements.default,
    deadlineMarginMs: 1,
  };
  const scoring = createRowScoring({
    models,
    limits,
    checkPercent: RANGES.checkPercent.default,
    observer: {},
    mostCharacters: MOST_CHARACTERS_HELD,
  });
  const time = { remainingMs: () => 900_000, signal: new AbortController().signal };
  const startedAt = performance.now();
  for (const part of await readParts(storage, planKey(FOLDER, 1))) {
    const reader = openReader(storage, head, part, 28 * MIB);
    await scorePart(
      { action: 'score', bucket: 'disk', folder: FOLDER, part },
      { storage, head, reader, scoring },
      time,
    );
  }
  const seconds = (performance.now() - startedAt) / 1000;
  const { rows } = await finishJob({ action: 'finish', start }, storage, Date.now);
  await models.close();
  const peakMib = process.resourceUsage().maxRSS / 1024;
  process.stdout.write(JSON.stringify({ rowsPerSecond: rows / seconds, peakMib }));
}

/** The input from the disk; what is put is kept where it is small, and else only counted. */
function diskStorage(file: string): JobStorage {
  const small = new Map<string, string>();
  return {
    async readRange(_, { start, end }) {
      const handle = await open(file);
      try {
        const bytes = Buffer.allocUnsafeSlow(end - start);
        await handle.read(bytes, 0, bytes.length, start);
        return bytes;
      } finally {
        await handle.close();
      }
    },
    readAll: async () => (await open(file)).createReadStream(),
    get: async (key) => small.get(key),
    async put(key, body) {
      small.set(key, body.toString());
    },
    putNew: async () => true,
    look: async () => undefined,
    remove: async (key) => void small.delete(key),
    async *list(prefix) {
      yield* [...small.keys()].filter((key) => key.startsWith(prefix)).toSorted();
    },
  };
}

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
    for (let bytes = 0; bytes < mib * MIB; bytes += block.length) await writeFile(handle, block);
  } finally {
    await handle.close();
  }
}

function report(what: string, runs: readonly Run[]): void {
  const rowsPerSecond = Math.round(median(runs.map((run) => run.rowsPerSecond)));
  process.stdout.write(`${what}: ${rowsPerSecond} rows/s, ${runs[0]?.peakMib.toFixed(0)} MiB at the most\n`);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

await runCommand(main);
