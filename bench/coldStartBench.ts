import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { buildSync } from 'esbuild';
import { parseOptions, runCommand, type Streams, wholeNumber } from '../cli/arguments.ts';
import { figure } from '../cli/format.ts';
import { bundleHost } from '../infra/image/stageImage.ts';
import { storeApart } from '../lambda/onnx/weights.ts';
import { CONFIG_KEYS } from '../lambda/settings.ts';
import { openProcesses } from './harness/processes.ts';
import { table } from './harness/report.ts';
import { median, takeTurns } from './harness/turns.ts';
import { DataType, encodeModel } from './workload/encodeModel.ts';
import { toRecord } from './workload/messages.ts';
import { createRandom } from './workload/random.ts';

const HELP = `Usage: npm run bench:cold-start -- [options]

Starts the Lambda entry, bundled as in an image, and has it answer one message: with digits, and with one large model of
matrix products whose weights lie apart. Beside them a process that does nothing but load ONNX Runtime, open the model and
run one row. Each start is a process of its own. The table has medians, in seconds from the first line of the process. The
file is in memory. From S3, a model takes as long as its bytes do, and as long to start.

  --megabytes N   how large the model is (default 1000)
  --rounds N      starts of each kind (default 3)
  --help          show this
`;

export async function benchColdStart(args: readonly string[], streams: Streams): Promise<number> {
  const options = parseOptions(args, {
    megabytes: { type: 'string', default: '1000' },
    rounds: { type: 'string', default: '3' },
  });
  const megabytes = wholeNumber('--megabytes', options.megabytes, 1, 1_900);
  const rounds = wholeNumber('--rounds', options.rounds, 1, 100);
  const starts = await measureColdStarts(megabytes, rounds, (progress) => streams.stderr.write(`${progress}\n`));
  const medianOf = (index: number, pick: (start: ColdStart) => number): string =>
    figure(median((starts[index] ?? []).map(pick)));
  const columns = {
    [`models of ${megabytes} MB`]: (index: number) => (WAYS[index] as Way).name,
    'ready, s': (index: number) => medianOf(index, ({ readySeconds }) => readySeconds),
    'answered, s': (index: number) => medianOf(index, ({ answeredSeconds }) => answeredSeconds),
    'CPU until then, s': (index: number) => medianOf(index, ({ cpuSeconds }) => cpuSeconds),
    'peak until then, MB': (index: number) => medianOf(index, ({ peakBytes }) => peakBytes / 1e6),
  };
  streams.stdout.write(`${table([...WAYS.keys()], columns)}\n`);
  return 0;
}

/** Figures of one start. Seconds count from the first line of the process. */
export interface ColdStart {
  readonly readySeconds: number;
  readonly answeredSeconds: number;
  readonly cpuSeconds: number;
  readonly peakBytes: number;
}

/** Model, and how it is loaded. */
interface Way {
  readonly name: string;
  /** `apart` is the large model, with its weights in a separate file as in images. */
  readonly model: 'digits' | 'apart';
  readonly isBare?: true;
}

const WAYS: readonly Way[] = [
  { name: 'digits', model: 'digits' },
  { name: 'digits, ONNX Runtime alone', model: 'digits', isBare: true },
  { name: 'folder', model: 'apart' },
  { name: 'folder, ONNX Runtime alone', model: 'apart', isBare: true },
];

const START = new URL('./contestants/coldStartProcess.ts', import.meta.url);
const QUEUES = new URL('./contestants/awsServer.ts', import.meta.url);

/** Starts a process for each way, with an empty folder for temporary files. The large model has `megabytes`. */
async function measureColdStarts(
  megabytes: number,
  rounds: number,
  say: (progress: string) => void,
): Promise<ColdStart[][]> {
  const folders = await writeFolders(megabytes);
  const host = await bundle();
  const processes = await openProcesses();
  try {
    const queues = await processes.startServer(QUEUES);
    const contestants: (() => Promise<ColdStart>)[] = [];
    for (const { name, model, isBare } of WAYS) {
      const { directory, file, body } = folders[model];
      const env = {
        ...processes.environmentFor(queues.endpoint),
        [CONFIG_KEYS.requestQueueUrls]: `${queues.endpoint}/123456789012/requests`,
        [CONFIG_KEYS.resultQueueUrl]: `${queues.endpoint}/123456789012/results`,
        ...(isBare ? { BARE: file } : { ENTRY: join(host, 'handler.js') }),
        [CONFIG_KEYS.modelsDirectory]: directory,
        RECORD: JSON.stringify(toRecord(body, createRandom(1))),
      };
      contestants.push(async () => {
        say(name);
        const temporary = await newFolder();
        const child = processes.start(pathToFileURL(join(host, 'start.js')), { env: { ...env, TMPDIR: temporary } });
        try {
          return await child.ask<ColdStart>('start');
        } finally {
          await child.stop();
          await rm(temporary, { recursive: true });
        }
      });
    }
    return await takeTurns(contestants, rounds);
  } finally {
    await processes.stop();
    for (const { directory } of Object.values(folders)) await rm(directory, { recursive: true });
    await rm(host, { recursive: true });
  }
}

/** Writes a model repository for each model, with the `.onnx` file at `file` and a request for it. */
async function writeFolders(megabytes: number) {
  const folderFor = async (model: string, body: string) => {
    const directory = await newFolder();
    await mkdir(join(directory, model, '1'), { recursive: true });
    return { directory, file: join(directory, model, '1/model.onnx'), body };
  };
  const [line = ''] = (await readFile(new URL('samples.jsonl', DIGITS), 'utf8')).split('\n', 1);
  const data = Array.from({ length: WIDTH }, (_, index) => (index % 7) / 7);
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, WIDTH], data }] });
  const digits = await folderFor('digits', line);
  const apart = await folderFor('layers', body);
  await copyFile(new URL('1/model.onnx', DIGITS), digits.file);
  await copyFile(new URL('samples.jsonl', DIGITS), join(digits.directory, 'digits/samples.jsonl'));
  const folder = await newFolder();
  const whole = join(folder, basename(apart.file));
  await writeFile(whole, layersOf(megabytes));
  // A model that is too small stays in one file.
  if (!storeApart(whole, apart.file)) await copyFile(whole, apart.file);
  await rm(folder, { recursive: true });
  return { digits, apart };
}

function newFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'batchscore-cold-start-'));
}

const DIGITS = new URL('../models/digits/', import.meta.url);
const WIDTH = 2048;

/**
 * Encodes a model with layers of 2048 × 2048 weights (16.8 MB) each, as in an encoder. `x` and `y` are float32
 * `[batch, 2048]`.
 */
function layersOf(megabytes: number): Uint8Array {
  const layers = Math.max(1, Math.round((megabytes * 1e6) / (4 * WIDTH * WIDTH)));
  const random = createRandom(1);
  // All layers use the same random values with an offset, so that no two are equal and the activations keep their
  // scale.
  const weights = Float32Array.from({ length: WIDTH * WIDTH + 7 * layers }, () => 0.108 * (random.next() - 0.5));
  const names = Array.from({ length: layers }, (_, layer) => (layer === layers - 1 ? 'y' : `x${layer + 1}`));
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', WIDTH] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', WIDTH] }],
    nodes: names.flatMap((name, layer) => [
      { op: 'MatMul', inputs: [names[layer - 1] ?? 'x', `w${layer}`], outputs: [`sum${layer}`] },
      { op: 'Relu', inputs: [`sum${layer}`], outputs: [name] },
    ]),
    constants: names.map((_, layer) => ({
      name: `w${layer}`,
      dataType: DataType.FLOAT,
      dims: [WIDTH, WIDTH],
      rawData: new Uint8Array(weights.buffer, 28 * layer, 4 * WIDTH * WIDTH),
    })),
  });
}

/**
 * Bundles the entry as in an image, with the packages that are not bundled and the start script. Otherwise, Node would
 * take 40 ms to strip types.
 */
async function bundle(): Promise<string> {
  const folder = await newFolder();
  bundleHost('lambda', folder);
  buildSync({
    entryPoints: [fileURLToPath(START)],
    outfile: join(folder, 'start.js'),
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
  });
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  await symlink(fileURLToPath(new URL('../node_modules', import.meta.url)), join(folder, 'node_modules'));
  return folder;
}

if (import.meta.main) await runCommand(benchColdStart, HELP);
