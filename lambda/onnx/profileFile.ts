import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { messageOf } from '../core/failure.ts';
import type { MeasuredRun } from '../core/model.ts';
import { readJsonIfThere } from './modelConfig.ts';
import { modelDigest } from './weights.ts';

interface ProfileUse {
  readonly provider: string;
  /** Threads of its session in config.json. @default the choice of ONNX Runtime */
  readonly threads?: number | undefined;
  /** True if requests of different lengths share runs. The plan then depends on lengths. */
  readonly isRagged: boolean;
  readonly warn: (message: string) => void;
}

/**
 * Returns the measured runs of the profile beside a model, or undefined if there is no profile that fits. A profile
 * that does not fit only causes a warning, and runs are measured.
 *
 * @param path of the model
 */
export async function readMeasured(path: string, use: ProfileUse): Promise<readonly MeasuredRun[] | undefined> {
  try {
    const profile = readProfile(path);
    if (profile === undefined) return undefined;
    const differing = await differenceOf(profile, path, use);
    if (differing === undefined) return measuredBy(profile, use.isRagged);
    use.warn(`${profilePath(path)}: ${differing}; ${UNKNOWN}`);
  } catch (error) {
    const message = messageOf(error);
    use.warn(`${message.startsWith(profilePath(path)) ? '' : `${profilePath(path)}: `}${message}; ${UNKNOWN}`);
  }
  return undefined;
}

const UNKNOWN = 'the cost of runs is measured at start instead; run batchscore profile again, or delete the file';

/** Returns why a profile does not fit, or undefined. The model is read only if everything else agrees. */
async function differenceOf(profile: ProfileFile, path: string, use: ProfileUse): Promise<string | undefined> {
  const { cpu, cores, architecture } = thisMachine();
  const { machine, versions } = profile;
  const here = `${cpu}, ${cores} cores, ${architecture}`;
  const there = `${machine.cpu}, ${machine.cores} cores, ${machine.architecture}`;
  if (there !== here) return `expected a profile of this machine (${here}), got one of ${there}`;
  if (profile.provider !== use.provider) {
    return `expected a profile with the provider ${use.provider}, got ${profile.provider}`;
  }
  if (use.threads !== undefined && use.threads !== profile.threads) {
    return `expected a profile with ${use.threads} threads, as config.json says, got ${profile.threads}`;
  }
  const version = runtimeVersion();
  if (minorOf(versions.onnxruntime) !== minorOf(version)) {
    return `expected a profile with ONNX Runtime ${version}, got ${versions.onnxruntime}`;
  }
  return otherModel(profile, path);
}

/** Returns a problem if a profile is of another model than the one beside it. */
async function otherModel({ digest }: ProfileFile, path: string): Promise<string | undefined> {
  const got = await modelDigest(path);
  return digest === got ? undefined : `expected a profile of this model (${got}), got one of ${digest}`;
}

function minorOf(version: string): string {
  return version.split('.').slice(0, 2).join('.');
}

/** Returns the runs for the plan. It knows no lengths if requests of different lengths do not share runs. */
function measuredBy({ table, threads, length: ordinary }: ProfileFile, isRagged: boolean): MeasuredRun[] {
  const runs = table.filter((run) => run.threads === threads && (isRagged || run.length === ordinary));
  return runs.map(({ rows, length, medianMs }) => ({ rows, length: isRagged ? length : 1, ms: medianMs }));
}

const PROFILE_FILE = 'profile.json';

/** Far more than any profile has. A larger file would delay a start. */
const MAX_BYTES = 2 * 1024 * 1024;

const size = z.int().min(1);
const milliseconds = z.number().min(0);
/** Short text, such as the name of a processor, which warnings quote. */
const word = z.string().max(200);
/** A day. Larger values would make costs infinite. */
const MAX_MS = 86_400_000;

/** Times of runs by size, in `profile.json` and in the output of `batchscore profile --json`. */
const MEASURED_RUNS = z
  .array(
    z.object({
      rows: size,
      /** Size of the open axis, or 1 if there is none. */
      length: size,
      threads: size,
      medianMs: z.number().positive().max(MAX_MS),
      /** Spread of the middle 80 % of the runs, relative to the median. */
      spread: z.number().min(0),
      rowsPerSecond: z.number().positive(),
      /** Peak memory of a process whose runs were at most this large. */
      peakRssBytes: size,
    }),
  )
  .min(1);

const schema = z
  .object({
    schemaVersion: z.literal(1),
    model: word,
    version: word,
    /** Digest of the model, by `modelDigest`. */
    digest: z.string().regex(/^sha256:[0-9a-f]{64}$/, 'expected sha256: and 64 digits'),
    date: z.iso.datetime(),
    machine: z.object({
      cpu: word,
      /** Cores that the process may use. */
      cores: size,
      /** Node's name of it, such as `x64`. */
      architecture: word,
      memoryBytes: size,
    }),
    /** ONNX Runtime execution provider of the model. */
    provider: word,
    versions: z.object({ batchscore: word, node: word, onnxruntime: word }),
    /** Threads of a session when deployed on such a machine. */
    threads: size,
    /** Length of ordinary rows, or 1 if no axis is open. */
    length: size,
    /** Verdict of the graph on rows, the resulting sharing of runs, and the evidence. */
    safety: z.object({
      verdict: z.enum(['independent', 'mixes', 'unknown']),
      sharesRuns: z.boolean(),
      evidence: z.string(),
    }),
    /**
     * Times of a fresh process until its code starts, for code and ONNX Runtime, for the model, for warm-up and checks.
     */
    coldStart: z.object({
      processMs: milliseconds,
      libraryMs: milliseconds,
      loadMs: milliseconds,
      warmUpMs: milliseconds,
    }),
    table: MEASURED_RUNS,
    findings: z.array(z.string()),
    recommendation: z.object({
      batchSize: size,
      windowSeconds: z.number().min(0),
      maxBatchRows: size,
      memoryMb: size,
      maximumConcurrency: size,
      reason: z.string(),
      /** US dollars. */
      dollarsPerMillionRows: z.number().min(0),
    }),
  })
  .refine(({ table, threads }) => table.some((run) => run.threads === threads), {
    path: ['threads'],
    message: 'expected runs with that number of threads in the table',
  })
  .refine(({ table, length }) => table.some((run) => run.length === length), {
    path: ['length'],
    message: 'expected runs of that length in the table',
  });

/** `profile.json`, schema version 1. */
export type ProfileFile = z.infer<typeof schema>;

export function profilePath(modelPath: string): string {
  return join(dirname(modelPath), PROFILE_FILE);
}

/**
 * Reads the profile beside a model, even one of another model. Returns undefined if there is none.
 *
 * @throws Error naming the file and the problem
 */
function readProfile(modelPath: string): ProfileFile | undefined {
  const path = profilePath(modelPath);
  const bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes > MAX_BYTES) throw new Error(`${path}: expected a profile of ${MAX_BYTES} bytes at most, got ${bytes}`);
  return readJsonIfThere(path, schema, 'profile');
}

export function thisMachine(): ProfileFile['machine'] {
  return {
    cpu: cpus()[0]?.model.trim() || 'unknown',
    cores: availableParallelism(),
    architecture: process.arch,
    memoryBytes: totalmem(),
  };
}

/** Returns the version of the ONNX Runtime package, or `unknown` if it is not installed. */
export function runtimeVersion(): string {
  try {
    const path = createRequire(import.meta.url).resolve('onnxruntime-node/package.json');
    return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(path, 'utf8'))).version;
  } catch {
    return 'unknown';
  }
}
