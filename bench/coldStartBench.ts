import { fork } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseOptions, runCommand, wholeNumber } from '../cli/arguments.ts';
import { digestOf, type ModelFile, partsOf, writeManifest } from '../lambda/aws/modelManifest.ts';
import { CONFIG_KEYS } from '../lambda/configKeys.ts';
import type { ColdStart } from './contestants/coldStartProcess.ts';
import { median } from './measure/contest.ts';
import { table } from './report/markdownTable.ts';
import { type Certificate, createCertificate } from './workload/certificate.ts';
import { DataType, encodeModel } from './workload/encodeModel.ts';

const HELP = `Usage: npm run bench:cold-start -- [options]

Starts the Lambda entry with one large model, from a folder and from S3 over TLS, all on this
machine: with one connection and with 16, as fast as the machine is, and with what AWS says
one connection to S3 brings. Each start is a process of its own; the table has medians.

  --megabytes N   how large the model is (default 1000)
  --rounds N      starts of each kind (default 3)
  --help          show this
`;

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args, {
    megabytes: { type: 'string', default: '1000' },
    rounds: { type: 'string', default: '3' },
    help: { type: 'boolean', default: false },
  });
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const megabytes = wholeNumber('--megabytes', options.megabytes, 1, 1_900);
  const rounds = wholeNumber('--rounds', options.rounds, 1, 100);
  const figures = await measureColdStarts(megabytes, rounds, (progress) => process.stderr.write(`${progress}\n`));
  const rows = figures.map(({ way, seconds, cpuSeconds, peakRssBytes }) => [
    way,
    seconds.toFixed(1),
    cpuSeconds.toFixed(1),
    (peakRssBytes / 1e6).toFixed(0),
  ]);
  process.stdout.write(`${table([`models of ${megabytes} MB`, 'seconds', 'CPU seconds', 'peak MB'], rows)}\n`);
  return 0;
}

/** Where models are, and how they come from there. */
interface Way {
  readonly name: string;
  /** Undefined: a folder, whose files the machine has in memory. */
  readonly s3?: { readonly oneConnection: boolean; readonly bytesPerSecond?: number };
}

/** What AWS says one connection to S3 brings. @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-design-patterns.html */
const BYTES_PER_SECOND_OF_S3 = 85e6;

const WAYS: readonly Way[] = [
  { name: 'folder' },
  { name: 'S3, as fast as this machine, 16 connections', s3: { oneConnection: false } },
  { name: 'S3, as fast as this machine, 1 connection', s3: { oneConnection: true } },
  {
    name: 'S3, 85 MB/s a connection, 16 connections',
    s3: { oneConnection: false, bytesPerSecond: BYTES_PER_SECOND_OF_S3 },
  },
  {
    name: 'S3, 85 MB/s a connection, 1 connection',
    s3: { oneConnection: true, bytesPerSecond: BYTES_PER_SECOND_OF_S3 },
  },
];

interface ColdStartFigures extends ColdStart {
  readonly way: string;
}

const START_SCRIPT = new URL('./contestants/coldStartProcess.ts', import.meta.url);

/** Medians of starts with one model of `megabytes`, each in a process of its own with an empty folder for temporary files. */
async function measureColdStarts(
  megabytes: number,
  rounds: number,
  say: (progress: string) => void,
): Promise<ColdStartFigures[]> {
  const certificate = createCertificate();
  const scratch = await mkdtemp(join(tmpdir(), 'batchscore-cold-start-'));
  const certificateFile = join(scratch, 'certificate.pem');
  await writeFile(certificateFile, certificate.cert);
  const model = await writeLargeModel(megabytes);
  const servers = await Promise.all(
    WAYS.map(({ s3 }) => s3 && startObjectServer({ ...model, certificate, bytesPerSecond: s3.bytesPerSecond })),
  );
  try {
    const starts = WAYS.map((): ColdStart[] => []);
    for (let round = 0; round < rounds; round++) {
      for (const [index, { name, s3 }] of WAYS.entries()) {
        say(`round ${round + 1} of ${rounds}: ${name}`);
        const variables = s3 && {
          NODE_EXTRA_CA_CERTS: certificateFile,
          AWS_ENDPOINT_URL_S3: servers[index]?.endpoint,
          [CONFIG_KEYS.modelsUri]: `s3://bench/${model.digest}`,
          ONE_CONNECTION: s3.oneConnection ? 'true' : undefined,
        };
        starts[index]?.push(await startOnce(variables ?? { [CONFIG_KEYS.modelsDirectory]: model.directory }));
      }
    }
    return WAYS.map(({ name }, index) => ({ way: name, ...mediansOf(starts[index] ?? []) }));
  } finally {
    for (const server of servers) await server?.stop();
    for (const folder of [scratch, model.directory]) await rm(folder, { recursive: true });
  }
}

async function startOnce(variables: Readonly<Record<string, string | undefined>>): Promise<ColdStart> {
  const temporary = await mkdtemp(join(tmpdir(), 'batchscore-cold-start-'));
  const env = {
    PATH: process.env.PATH,
    TMPDIR: temporary,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'bench',
    AWS_SECRET_ACCESS_KEY: 'bench',
    [CONFIG_KEYS.requestQueueUrls]: 'https://127.0.0.1/123456789012/requests',
    [CONFIG_KEYS.resultQueueUrl]: 'https://127.0.0.1/123456789012/results',
    ...variables,
  };
  const child = fork(START_SCRIPT, { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  try {
    const [start] = await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]): never => {
        throw new Error(`expected the handler to start, got exit code ${code}`);
      }),
    ]);
    return start;
  } finally {
    await rm(temporary, { recursive: true });
  }
}

function mediansOf(starts: readonly ColdStart[]): ColdStart {
  const medianOf = (value: (start: ColdStart) => number): number => median(starts.map(value));
  return {
    seconds: medianOf(({ seconds }) => seconds),
    cpuSeconds: medianOf(({ cpuSeconds }) => cpuSeconds),
    peakRssBytes: medianOf(({ peakRssBytes }) => peakRssBytes),
  };
}

export interface ServedObjects {
  readonly certificate: Certificate;
  readonly manifest: string;
  /** Of the files that the manifest names. */
  readonly directory: string;
  /** The most of one connection. @default as fast as the machine is */
  readonly bytesPerSecond?: number | undefined;
}

interface ObjectServer {
  readonly endpoint: string;
  stop(): Promise<void>;
}

const SERVER_SCRIPT = new URL('./contestants/objectServer.ts', import.meta.url);

async function startObjectServer(served: ServedObjects): Promise<ObjectServer> {
  const child = fork(SERVER_SCRIPT);
  child.send(served);
  const [{ port }] = await once(child, 'message');
  return {
    endpoint: `https://127.0.0.1:${port}`,
    async stop() {
      child.disconnect();
      await once(child, 'exit');
    },
  };
}

/** A model repository as a folder, and as it would be published. */
interface LargeModel {
  readonly directory: string;
  readonly manifest: string;
  readonly digest: string;
}

const WIDTH = 64;
const PATH = 'items/1/model.onnx';

/**
 * A table of embeddings, as recommenders have them: `id` int64 `[batch]`, `embedding` float32 `[batch, 64]`. It is as
 * large as it is told, and its runs take no time, so that a start takes what reading it takes.
 */
async function writeLargeModel(megabytes: number): Promise<LargeModel> {
  const directory = await mkdtemp(join(tmpdir(), 'batchscore-cold-start-'));
  const rows = Math.floor((megabytes * 1e6) / (4 * WIDTH));
  const table = Float32Array.from({ length: rows * WIDTH }, (_, index) => ((index * 2_654_435_761) % 1009) / 1009);
  const model = encodeModel({
    inputs: [{ name: 'id', datatype: 'INT64', shape: ['batch'] }],
    outputs: [{ name: 'embedding', datatype: 'FP32', shape: ['batch', WIDTH] }],
    nodes: [{ op: 'Gather', inputs: ['table', 'id'], outputs: ['embedding'], attributes: { axis: 0 } }],
    constants: [
      { name: 'table', dataType: DataType.FLOAT, dims: [rows, WIDTH], rawData: new Uint8Array(table.buffer) },
    ],
  });
  await mkdir(join(directory, 'items/1'), { recursive: true });
  await writeFile(join(directory, PATH), model);
  const manifest = writeManifest([await describe(join(directory, PATH))]);
  return { directory, manifest, digest: digestOf(manifest) };
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

await runCommand(main);
