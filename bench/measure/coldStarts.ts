import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import type { ColdStart } from '../contestants/coldStart.ts';
import { startObjectServer } from '../contestants/startObjectServer.ts';
import { createCertificate } from '../workload/certificate.ts';
import { writeLargeModel } from '../workload/largeModel.ts';
import { median } from './median.ts';

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

export interface ColdStartFigures extends ColdStart {
  readonly way: string;
}

const SCRIPT = new URL('../contestants/coldStart.ts', import.meta.url);

/** Medians of starts with one model of `megabytes`, each in a process of its own with an empty folder for temporary files. */
export async function measureColdStarts(
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
  const child = fork(SCRIPT, { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
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
