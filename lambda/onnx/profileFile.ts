import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { messageOf } from '../core/failure.ts';
import type { MeasuredRun } from '../core/model.ts';
import { readJsonIfThere } from './modelConfig.ts';
import { modelDigest } from './weights.ts';

/** What a profile must agree with to be of any use here. */
interface ProfileUse {
  /** The execution provider that the model was opened with. */
  readonly provider: string;
  /** Of its session, where config.json gives them. @default as many as ONNX Runtime takes */
  readonly threads?: number | undefined;
  /** Whether requests of different lengths share runs: the plan then asks for lengths. */
  readonly isRagged: boolean;
  readonly warn: (message: string) => void;
}

/**
 * What a model's runs took, by the profile beside it; undefined where it has none of this model, as it is
 * run here. That is warned of, and never an error: what runs cost is then found out as without a profile.
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

const UNKNOWN =
  'what runs cost here is unknown until they are measured at start; run batchscore profile again, or delete it';

/** What keeps a profile from being of this model, as it is run here. The model is read only where all else agrees. */
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

/** What says that a profile is of another model than the one that it lies beside; undefined where it is of this one. */
async function otherModel({ digest }: ProfileFile, path: string): Promise<string | undefined> {
  const got = await modelDigest(path);
  return digest === got ? undefined : `expected a profile of this model (${got}), got one of ${digest}`;
}

function minorOf(version: string): string {
  return version.split('.').slice(0, 2).join('.');
}

/** Where requests of different lengths do not share runs, the plan knows no length. */
function measuredBy({ table, threads, length: ordinary }: ProfileFile, isRagged: boolean): MeasuredRun[] {
  const runs = table.filter((run) => run.threads === threads && (isRagged || run.length === ordinary));
  return runs.map(({ rows, length, medianMs }) => ({ rows, length: isRagged ? length : 1, ms: medianMs }));
}

/** What was measured of a model, beside its `.onnx` file. */
const PROFILE_FILE = 'profile.json';

/** Far more than any profile has: a larger file would hold up a start. */
const MAX_BYTES = 2 * 1024 * 1024;

const size = z.int().min(1);
const milliseconds = z.number().min(0);
/** Such as the name of a processor: warnings have it. */
const word = z.string().max(200);
/** A run of a day and more is none: larger ones would make costs infinite. */
const MAX_MS = 86_400_000;

/** What runs of each size took, as `profile.json` keeps it and `batchscore profile --json` prints it. */
export const MEASURED_RUNS = z
  .array(
    z.object({
      rows: size,
      /** Of the open axis; 1 without one. */
      length: size,
      threads: size,
      medianMs: z.number().positive().max(MAX_MS),
      /** Of the middle 80 % of the runs, as a share of the median. */
      spread: z.number().min(0),
      rowsPerSecond: z.number().positive(),
      /** The most memory that a process had which ran no more rows than these, and none longer. */
      peakRssBytes: size,
    }),
  )
  .min(1);

const schema = z
  .object({
    schemaVersion: z.literal(1),
    model: word,
    version: word,
    /** Of the model, as `modelDigest` has it. */
    digest: z.string().regex(/^sha256:[0-9a-f]{64}$/, 'expected sha256: and 64 digits'),
    date: z.iso.datetime(),
    machine: z.object({
      cpu: word,
      /** That the process may use. */
      cores: size,
      /** As Node names it, such as `x64`. */
      architecture: word,
      memoryBytes: size,
    }),
    /** The ONNX Runtime execution provider that it was opened with. */
    provider: word,
    versions: z.object({ batchscore: word, node: word, onnxruntime: word }),
    /** Of a session as it is deployed on such a machine. */
    threads: size,
    /** Of ordinary rows; 1 where no axis is open. */
    length: size,
    /** Whether rows depend on each other, by the graph; whether requests share runs; and how that is known. */
    safety: z.object({
      verdict: z.enum(['independent', 'mixes', 'unknown']),
      sharesRuns: z.boolean(),
      evidence: z.string(),
    }),
    /** Of a fresh process: until its code begins, with its code and ONNX Runtime, with the model, with warm-up and checks. */
    coldStart: z.object({
      processMs: milliseconds,
      libraryMs: milliseconds,
      loadMs: milliseconds,
      warmUpMs: milliseconds,
    }),
    table: MEASURED_RUNS,
    /** What else was found, a sentence each. */
    findings: z.array(z.string()),
    /** For the traffic that was asked for. */
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
    message: 'expected runs with so many threads in the table',
  })
  .refine(({ table, length }) => table.some((run) => run.length === length), {
    path: ['length'],
    message: 'expected runs of that length in the table',
  });

/** `profile.json`, schema version 1. */
export type ProfileFile = z.infer<typeof schema>;

/** Where a model's profile lies. */
export function profilePath(modelPath: string): string {
  return join(dirname(modelPath), PROFILE_FILE);
}

/**
 * The profile beside a model; undefined where there is none. Whether it is of this model is not looked at.
 *
 * @throws Error naming the file and what is wrong in it
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

/** Of the package that runs models here; `unknown` where it is not installed. */
export function runtimeVersion(): string {
  try {
    const path = createRequire(import.meta.url).resolve('onnxruntime-node/package.json');
    return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(path, 'utf8'))).version;
  } catch {
    return 'unknown';
  }
}
