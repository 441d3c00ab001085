import { execFile } from 'node:child_process';
import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, mkdir, mkdtemp, open, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseOptions, runCommand, type Streams, wholeNumber } from '../cli/arguments.ts';
import { bundleHost } from '../infra/image/stageImage.ts';
import { digestOf, type ModelFile, partsOf, writeManifest } from '../lambda/aws/fetchModels.ts';
import { storeApart } from '../lambda/onnx/weights.ts';
import { CONFIG_KEYS } from '../lambda/settings.ts';
import { openProcesses } from './harness/processes.ts';
import { figure, table } from './harness/report.ts';
import { median, takeTurns } from './harness/turns.ts';
import { DataType, encodeModel } from './workload/encodeModel.ts';

const HELP = `Usage: npm run bench:cold-start -- [options]

Starts the Lambda entry, bundled as in an image, with one large model: from a folder as it is,
with a proof, and with its weights apart too; and from S3 over TLS, all on this machine: with one
connection and with 16, as fast as the machine is, and with what AWS says one connection to S3
brings. Each start is a process of its own; the table has medians.

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
    seconds: (index: number) => medianOf(index, ({ seconds }) => seconds),
    'CPU seconds': (index: number) => medianOf(index, ({ cpuSeconds }) => cpuSeconds),
    'peak MB': (index: number) => medianOf(index, ({ peakRssBytes }) => peakRssBytes / 1e6),
  };
  streams.stdout.write(`${table([...WAYS.keys()], columns)}\n`);
  return 0;
}

export interface ColdStart {
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly peakRssBytes: number;
}

export interface ServedObjects {
  readonly manifest: string;
  /** Of the files that the manifest names. */
  readonly directory: string;
  /** The most of one connection. @default as fast as the machine is */
  readonly bytesPerSecond?: number | undefined;
}

/** Where models are, and how they come from there. */
interface Way {
  readonly name: string;
  /** Undefined: a folder, whose files the machine has in memory. */
  readonly connections?: 1 | 16;
  /** What is done to the model in the folder beforehand. @default nothing */
  readonly folder?: 'proved' | 'apart';
  readonly bytesPerSecond?: number;
}

/** What AWS says one connection to S3 brings. @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-design-patterns.html */
const BYTES_PER_SECOND_OF_S3 = 85e6;

const WAYS: readonly Way[] = [
  { name: 'folder' },
  { name: 'folder, proved', folder: 'proved' },
  { name: 'folder, proved, weights apart', folder: 'apart' },
  { name: 'S3, as fast as this machine, 16 connections', connections: 16 },
  { name: 'S3, as fast as this machine, 1 connection', connections: 1 },
  { name: 'S3, 85 MB/s a connection, 16 connections', connections: 16, bytesPerSecond: BYTES_PER_SECOND_OF_S3 },
  { name: 'S3, 85 MB/s a connection, 1 connection', connections: 1, bytesPerSecond: BYTES_PER_SECOND_OF_S3 },
];

const START = new URL('./contestants/coldStartProcess.ts', import.meta.url);
const SERVER = new URL('./contestants/objectServer.ts', import.meta.url);

/** Starts with one model of `megabytes`, by way: each in a process of its own with an empty folder for temporary files. */
async function measureColdStarts(
  megabytes: number,
  rounds: number,
  say: (progress: string) => void,
): Promise<ColdStart[][]> {
  const model = await writeLargeModel(megabytes);
  const host = await bundle();
  const processes = await openProcesses();
  try {
    await proveBoth(model);
    const contestants: (() => Promise<ColdStart>)[] = [];
    for (const { name, connections, bytesPerSecond, folder } of WAYS) {
      const served: ServedObjects = { manifest: model.manifest, directory: model.directory, bytesPerSecond };
      const { endpoint } = await processes.startServer(SERVER, served);
      const env = {
        ...processes.environmentFor(endpoint),
        [CONFIG_KEYS.requestQueueUrls]: 'https://127.0.0.1/123456789012/requests',
        [CONFIG_KEYS.resultQueueUrl]: 'https://127.0.0.1/123456789012/results',
        ENTRY: join(host, 'handler.js'),
        ...(connections === undefined
          ? { [CONFIG_KEYS.modelsDirectory]: folder === undefined ? model.directory : model[folder] }
          : { [CONFIG_KEYS.modelsUri]: `s3://bench/${model.digest}` }),
        ...(connections === 1 && { ONE_CONNECTION: 'true' }),
      };
      contestants.push(async () => {
        say(name);
        const temporary = await mkdtemp(join(tmpdir(), 'batchscore-cold-start-'));
        const child = processes.start(START, { env: { ...env, TMPDIR: temporary } });
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
    for (const folder of [model.directory, model.proved, model.apart, host]) await rm(folder, { recursive: true });
  }
}

/** A model repository as a folder, and as it would be published. */
interface LargeModel {
  readonly directory: string;
  /** The same, with a proof beside the model. */
  readonly proved: string;
  /** The same, its weights apart. */
  readonly apart: string;
  readonly manifest: string;
  readonly digest: string;
}

const WIDTH = 64;
const PATH = 'items/1/model.onnx';

/**
 * A table of embeddings, as recommenders have them: `id` int64 `[batch]`, `embedding` float32 `[batch, 64]`. Its runs
 * take no time, so that a start takes what reading it takes.
 */
async function writeLargeModel(megabytes: number): Promise<LargeModel> {
  const directory = await folderFor();
  const rows = Math.floor((megabytes * 1e6) / (4 * WIDTH));
  const values = Float32Array.from({ length: rows * WIDTH }, (_, index) => ((index * 2_654_435_761) % 1009) / 1009);
  const model = encodeModel({
    inputs: [{ name: 'id', datatype: 'INT64', shape: ['batch'] }],
    outputs: [{ name: 'embedding', datatype: 'FP32', shape: ['batch', WIDTH] }],
    nodes: [{ op: 'Gather', inputs: ['table', 'id'], outputs: ['embedding'], attributes: { axis: 0 } }],
    constants: [
      { name: 'table', dataType: DataType.FLOAT, dims: [rows, WIDTH], rawData: new Uint8Array(values.buffer) },
    ],
  });
  await writeFile(join(directory, PATH), model);
  const manifest = writeManifest([await describe(join(directory, PATH))]);
  const [proved, apart] = [await folderFor(), await folderFor()];
  await link(join(directory, PATH), join(proved, PATH));
  storeApart(join(directory, PATH), join(apart, PATH));
  return { directory, proved, apart, manifest, digest: digestOf(manifest) };
}

async function folderFor(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'batchscore-cold-start-'));
  await mkdir(dirname(join(directory, PATH)), { recursive: true });
  return directory;
}

/** In another process: what proving takes of memory is not the starts'. A model that is too small stays in one file. */
async function proveBoth({ directory, proved, apart }: LargeModel): Promise<void> {
  if (!existsSync(join(apart, PATH))) await link(join(directory, PATH), join(apart, PATH));
  for (const folder of [proved, apart]) {
    const args = [fileURLToPath(CLI), 'inspect', join(folder, PATH), '--prove'];
    await promisify(execFile)(process.execPath, args);
  }
}

const CLI = new URL('../cli/batchscore.ts', import.meta.url);

/** The entry as an image has it, with the packages that are not bundled. */
async function bundle(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'batchscore-cold-start-'));
  bundleHost('lambda', folder);
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  await symlink(fileURLToPath(new URL('../node_modules', import.meta.url)), join(folder, 'node_modules'));
  return folder;
}

async function describe(path: string): Promise<ModelFile> {
  const file = await open(path);
  const { size: bytes } = await file.stat();
  const parts: string[] = [];
  for (const { start, end } of partsOf(bytes)) {
    const { buffer } = await file.read(Buffer.alloc(end - start), 0, end - start, start);
    parts.push(hash('sha256', buffer));
  }
  await file.close();
  return { path: PATH, bytes, parts };
}

if (import.meta.main) await runCommand(benchColdStart, HELP);
