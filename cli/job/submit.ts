import { HeadObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import type { JobOptions } from '../../client/index.ts';
import { PRICES, type Prices } from '../../infra/priceList.ts';

import { createJobStorage } from '../../lambda/aws/jobStorage.ts';
import { JOB_MEMORY_MB, JOB_RANGES } from '../../lambda/core/limits.ts';

import { COMPRESSIONS, FORMATS } from '../../lambda/jobs/jobTypes.ts';
import { countRows } from '../../lambda/jobs/planJob.ts';
import { columnSpec, oneOf, parseCommand, UsageError, wholeNumber } from '../arguments.ts';
import { connectToJobs, JOB_DEPLOYMENT_OPTIONS } from '../network/deployment.ts';

import { print, waitAndReport } from './running.ts';

const OPTIONS = {
  ...JOB_DEPLOYMENT_OPTIONS,
  model: { type: 'string' },
  'model-version': { type: 'string' },
  inputs: { type: 'string', multiple: true },
  keep: { type: 'string' },
  format: { type: 'string' },
  compression: { type: 'string' },
  concurrency: { type: 'string' },
  out: { type: 'string' },
  again: { type: 'boolean', default: false },
  wait: { type: 'boolean', default: false },
  estimate: { type: 'boolean', default: false },
  'rows-per-second': { type: 'string', default: '20000' },
  memory: { type: 'string', default: String(JOB_MEMORY_MB.default) },
  json: { type: 'boolean', default: false },
} as const;

export async function submitJob(args: readonly string[]): Promise<number> {
  const { options, positionals } = parseCommand(args, ['s3://BUCKET/KEY'], OPTIONS);
  const [uri = ''] = positionals;
  const { min, max } = JOB_RANGES.concurrency;
  const { concurrency: said, again } = options;
  const calls = said === undefined ? {} : { concurrency: wholeNumber('--concurrency', said, min, max) };
  const spec = specOf(options);
  const { client, close, bucket, s3, concurrency: granted } = await connectToJobs(options);
  try {
    if (options.estimate) {
      const rowsPerSecond = wholeNumber('--rows-per-second', options['rows-per-second'], 1, 1e9);
      const memoryMb = wholeNumber('--memory', options.memory, JOB_MEMORY_MB.min, JOB_MEMORY_MB.max);
      const concurrency = Math.min(calls.concurrency ?? granted, granted);
      const expected = await estimateOf(s3, uri, spec, { concurrency, rowsPerSecond, memoryMb });
      print(options.json, expected, describe(expected));
      return 0;
    }
    const outputPrefix = options.out === undefined ? {} : { outputPrefix: prefixIn(bucket, options.out) };
    const submitted = await client.jobs.submit(uri, { ...spec, ...calls, ...outputPrefix, again });
    const { job, isNew, folder } = submitted;
    const was = isNew ? 'is submitted' : 'was submitted before (--again scores the file anew)';
    const tell = (): void => print(options.json, submitted, `${job} ${was}; results go to s3://${bucket}/${folder}`);
    if (options.wait) return await waitAndReport(client, job, options.json, options.json ? undefined : tell);
    tell();
    return 0;
  } finally {
    await close();
  }
}

interface SpecValues {
  readonly model?: string | undefined;
  readonly 'model-version'?: string | undefined;
  readonly inputs?: readonly string[] | undefined;
  readonly keep?: string | undefined;
  readonly format?: string | undefined;
  readonly compression?: string | undefined;
}

function specOf(values: SpecValues): JobOptions {
  const { model, 'model-version': version, inputs, keep } = values;
  const format = oneOf('--format', values.format, FORMATS);
  const compression = oneOf('--compression', values.compression, COMPRESSIONS);
  return {
    ...(model !== undefined && { model }),
    ...(version !== undefined && { version }),
    ...(format !== undefined && { format }),
    ...(compression !== undefined && { compression }),
    ...columnSpec({ inputs, keep }),
  };
}

function prefixIn(bucket: string, uri: string): string {
  const place = `s3://${bucket}/`;
  if (!uri.startsWith(place))
    throw new UsageError(`--out: expected a folder in the bucket of jobs, ${place}…, got '${uri}'`);
  const prefix = uri.slice(place.length);
  return prefix.endsWith('/') ? prefix : `${prefix}/`;
}

async function estimateOf(
  s3: S3Client,
  uri: string,
  spec: JobOptions,
  of: { readonly concurrency: number; readonly rowsPerSecond: number; readonly memoryMb: number },
): Promise<Estimate> {
  const [, bucket = '', key = ''] = /^s3:\/\/([^/]+)\/(.+)$/s.exec(uri) ?? [];
  if (key === '') throw new UsageError(`expected s3://BUCKET/KEY, got '${uri}'`);
  const { ETag: etag = '', ContentLength: bytes = 0 } = await s3
    .send(new HeadObjectCommand({ Bucket: bucket, Key: key }))
    .catch((cause: unknown) => {
      throw new Error(`expected ${uri} to be there, it cannot be read; check the key and the permissions`, { cause });
    });
  const storage = createJobStorage({ s3, bucket });
  const { rows, textBytes } = await countRows(storage, { bucket, key, etag, bytes }, spec);
  const { partBytes, pieceBytes } = JOB_RANGES;
  return estimate(
    {
      ...of,
      rows,
      bytes: textBytes,
      architecture: 'arm64',
      partBytes: partBytes.default,
      pieceBytes: pieceBytes.default,
    },
    PRICES,
  );
}

function describe({ rows, parts, pieces, minutes, dollars, dollarsPerMillion }: Estimate): string {
  const cents = (usd: number): string => `${usd < 0.1 ? usd.toPrecision(2) : usd.toFixed(2)} $`;
  return (
    `about ${rows} rows in ${parts} parts, ${pieces} pieces: ${cents(dollars.all)}, ${minutes.toFixed(1)} minutes; ` +
    `compute ${cents(dollars.compute)}, S3 ${cents(dollars.objects)}, transitions ${cents(dollars.transitions)}; ` +
    `${cents(dollarsPerMillion)} a million rows`
  );
}

interface EstimateInput {
  readonly rows: number;
  readonly bytes: number;
  /** Of one call. */
  readonly rowsPerSecond: number;
  /** Most calls at a time. */
  readonly concurrency: number;
  readonly memoryMb: number;
  readonly architecture: 'arm64' | 'x64';
  readonly partBytes: number;
  readonly pieceBytes: number;
}

/** What a job comes to. Dollars by what they are paid for. */
export interface Estimate {
  readonly rows: number;
  readonly parts: number;
  readonly pieces: number;
  readonly minutes: number;
  readonly dollars: {
    readonly compute: number;
    readonly objects: number;
    readonly transitions: number;
    readonly all: number;
  };
  readonly dollarsPerMillion: number;
}

/** A part is scored, asked whether there is more of it, and done. */
const TRANSITIONS_A_PART = 3;
/** Plan, parts, finish and done. */
const TRANSITIONS_A_JOB = 4;
/** A piece puts its data, mostly as one object, and its report, a job what it was planned with, the plan and the manifest. */
const PUTS_A_PIECE = 2;
const PUTS_A_JOB = 3;
/** A piece is read and looked for, and its report read when the job is finished; a part reads what the job was planned with. */
const GETS_A_PIECE = 3;
const GETS_A_PART = 1;
const MIB_A_GIB = 1024;

/**
 * Reckons what a job takes, from what one call scores in a second: nothing is measured, and cold starts, retries and logs
 * are not in it. Calls run side by side from the first second on.
 */
export function estimate(input: EstimateInput, prices: Prices): Estimate {
  const { rows, bytes, rowsPerSecond, concurrency, memoryMb, architecture, partBytes, pieceBytes } = input;
  const parts = Math.max(1, Math.ceil(bytes / partBytes));
  const whole = Math.floor(bytes / partBytes);
  const rest = bytes - whole * partBytes;
  const pieces = whole * Math.ceil(partBytes / pieceBytes) + Math.ceil(rest / pieceBytes);
  const seconds = rows / rowsPerSecond;
  const gbSecond = architecture === 'arm64' ? prices.lambdaArmGbSecond : prices.lambdaX86GbSecond;
  const calls = (parts * prices.lambdaMillionRequests) / 1e6;
  const compute = (seconds * memoryMb * gbSecond) / MIB_A_GIB + calls;
  const puts = ((PUTS_A_PIECE * pieces + PUTS_A_JOB) * prices.s3ThousandPuts) / 1000;
  const gets = ((GETS_A_PIECE * pieces + GETS_A_PART * parts) * prices.s3ThousandGets) / 1000;
  const entered = TRANSITIONS_A_PART * parts + TRANSITIONS_A_JOB;
  const transitions = (entered * prices.stepFunctionsThousandTransitions) / 1000;
  const all = compute + puts + gets + transitions;
  return {
    rows,
    parts,
    pieces,
    minutes: seconds / Math.min(concurrency, parts) / 60,
    dollars: { compute, objects: puts + gets, transitions, all },
    dollarsPerMillion: rows === 0 ? 0 : (all / rows) * 1e6,
  };
}
