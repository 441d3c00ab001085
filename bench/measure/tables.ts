import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { median, takeTurns } from '../harness/turns.ts';
import { encodeTrees, TABLE_CITIES, TABLE_NUMBERS } from '../workload/generatedModels.ts';
import { createRandom } from '../workload/random.ts';

/** Seconds to score the rows of a file, as medians of interleaved rounds. */
export interface TableFigures {
  readonly rows: number;
  readonly format: Format;
  readonly batchscore: Seconds;
  /** Loop in Python over chunks of the file. Undefined if Python lacks onnxruntime, pandas or, for Parquet, pyarrow. */
  readonly python: Seconds | undefined;
}

type Format = 'csv' | 'parquet';

interface Seconds {
  readonly wall: number;
  /** Processor time of all processes. */
  readonly cpu: number;
}

const run = promisify(execFile);
const CLI = fileURLToPath(new URL('../../cli/bin.js', import.meta.url));
const LOOP = fileURLToPath(new URL('../contestants/tableLoop.py', import.meta.url));
const SEED = 11;

/**
 * Compares `batchscore score` with a typical Python loop, on a CSV and a Parquet file.
 *
 * @throws Error if their scores differ
 */
export async function measureTables(
  rows: number,
  rounds: number,
  say: (progress: string) => void,
): Promise<TableFigures[]> {
  const folder = await mkdtemp(join(tmpdir(), 'batchscore-bench-'));
  try {
    const model = join(folder, 'trees.onnx');
    await writeFile(model, encodeTrees(SEED));
    const csv = join(folder, 'rows.csv');
    await pipeline(Readable.from(linesOf(rows)), createWriteStream(csv));
    const python = process.env.PYTHON ?? 'python3';
    const formats: Format[] = ['csv'];
    const hasLoop = await succeeds(python, ['-c', 'import onnxruntime, pandas']);
    const convert = `import sys, pandas; pandas.read_csv(sys.argv[1]).to_parquet(sys.argv[2])`;
    if (await succeeds(python, ['-c', convert, csv, csv.replace('.csv', '.parquet')])) formats.push('parquet');
    const figures: TableFigures[] = [];
    for (const format of formats) {
      say(`tables ${format}, ${rows} rows`);
      const file = csv.replace('.csv', `.${format}`);
      const [ours, theirs] = [join(folder, 'ours.csv'), join(folder, 'theirs.csv')];
      const turns = [() => timed(process.execPath, [CLI, 'score', model, file, '--keep', 'id', '--out', ours])];
      if (hasLoop) turns.push(() => timed(python, [LOOP, model, file, theirs]));
      const [batchscore = [], loop] = await takeTurns(turns, rounds);
      if (loop !== undefined) await assertEqual(ours, theirs);
      figures.push({ rows, format, batchscore: mediansOf(batchscore), python: loop && mediansOf(loop) });
    }
    return figures;
  } finally {
    await rm(folder, { recursive: true });
  }
}

function* linesOf(rows: number): Generator<string> {
  const random = createRandom(SEED);
  yield `id,${TABLE_NUMBERS.join(',')},city\n`;
  for (let row = 0; row < rows; row++) {
    const numbers = TABLE_NUMBERS.map(() => random.next().toFixed(4)).join(',');
    yield `${row},${numbers},${TABLE_CITIES[Math.floor(random.next() * TABLE_CITIES.length)]}\n`;
  }
}

async function succeeds(command: string, args: readonly string[]): Promise<boolean> {
  return run(command, args).then(
    () => true,
    () => false,
  );
}

/** Measures a command with the shell, which counts the time of all processes that the command waits for. */
async function timed(command: string, args: readonly string[]): Promise<Seconds> {
  const script = 'TIMEFORMAT="%R %U %S"; time "$@" >/dev/null 2>&1';
  const { stderr } = await run('bash', ['-c', script, 'bash', command, ...args]);
  const [wall = 0, user = 0, system = 0] = stderr.trim().split(' ').map(Number);
  return { wall, cpu: user + system };
}

function mediansOf(turns: readonly Seconds[]): Seconds {
  return { wall: median(turns.map(({ wall }) => wall)), cpu: median(turns.map(({ cpu }) => cpu)) };
}

async function assertEqual(ours: string, theirs: string): Promise<void> {
  const [one, other] = await Promise.all([ours, theirs].map(scoresOf));
  const at = one?.findIndex((score, row) => !(Math.abs(score - (other?.[row] ?? Number.NaN)) < 1e-5));
  if (one?.length !== other?.length || at !== -1) throw new Error(`expected equal scores, got others in row ${at}`);
}

/** Reads the score of each row, in the column after the ID. */
async function scoresOf(path: string): Promise<number[]> {
  const [head = '', ...lines] = (await readFile(path, 'utf8')).trim().split('\n');
  const at = head.split(',').indexOf('score');
  return lines.map((line) => Number(line.split(',')[at]));
}
