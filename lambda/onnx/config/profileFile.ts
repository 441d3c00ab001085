import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { readJsonIfThere } from './jsonFile.ts';

/** What was measured of a model, beside its `.onnx` file. */
export const PROFILE_FILE = 'profile.json';

/** Far more than any profile has: a larger file would hold up a start. */
const MOST_BYTES = 2 * 1024 * 1024;

const size = z.int().min(1);
const milliseconds = z.number().min(0);
/** Such as the name of a processor: warnings have it. */
const word = z.string().max(200);
/** A run of a day and more is none: larger ones would make costs infinite. */
const MOST_MS = 86_400_000;

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
    /** Whether rows may share a run. `maxDifference`: of answers that were taken to be the same, as a share; null where none were compared. */
    safety: z.object({
      verdict: z.enum(['independent', 'trusted', 'unknown', 'dependent', 'alone']),
      maxDifference: z.number().min(0).nullable(),
      /** Rows that were run alone and in company. */
      probes: z.int().min(0),
    }),
    /** Of a fresh process: until its code begins, with its code and ONNX Runtime, with the model, with warm-up and checks. */
    coldStart: z.object({
      processMs: milliseconds,
      libraryMs: milliseconds,
      loadMs: milliseconds,
      warmUpMs: milliseconds,
    }),
    table: z
      .array(
        z.object({
          rows: size,
          /** Of the open axis; 1 without one. */
          length: size,
          threads: size,
          medianMs: z.number().positive().max(MOST_MS),
          /** Of the middle 80 % of the runs, as a share of the median. */
          spread: z.number().min(0),
          rowsPerSecond: z.number().positive(),
          /** The most memory that a process had which ran no more rows than these, and none longer. */
          peakRssBytes: size,
        }),
      )
      .min(1),
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
export function readProfile(modelPath: string): ProfileFile | undefined {
  const path = profilePath(modelPath);
  const bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes > MOST_BYTES) throw new Error(`${path}: expected a profile of ${MOST_BYTES} bytes at most, got ${bytes}`);
  return readJsonIfThere(path, schema, 'profile');
}
