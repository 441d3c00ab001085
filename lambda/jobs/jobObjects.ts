import type * as z from 'zod';
import { parseIfJson } from '../core/json.ts';
import { IN_OUR_WORDS, problemsIn } from '../core/wrongValue.ts';
import type { Format, JobStorage } from './jobFiles.ts';
import { JOB_HEAD, type JobHead, PART, type Part, pieceIn } from './jobTypes.ts';

/*
 * Keys of a job's objects, all under one folder. They depend only on part and piece, so a repeated call writes the same
 * objects. In key order, the data objects of a file hold its rows in order.
 */

/** Place of a piece. */
export interface Place {
  readonly folder: string;
  readonly part: number;
  readonly piece: number;
  /** Path of the piece's file. Empty if the input of the job is one object. */
  readonly path: string;
  /** Format of the results. */
  readonly format: Format;
}

export function placeIn(
  folder: string,
  part: Part,
  piece: number,
  { results: format }: Pick<JobHead, 'results'>,
): Place {
  return { folder, part: part.part, piece, path: pieceIn(part, piece).file?.path ?? '', format };
}

const PIECE_DIGITS = 4;
/** A piece has at most 64 MiB, and so fewer rows. */
const ROW_DIGITS = 9;

/** Maximum number of pieces of a part. Keys of more would not sort as numbers. */
export const MAX_PIECES = 10 ** PIECE_DIGITS;

export function dataKeys(folder: string): string {
  return `${folder}data/`;
}

/** Returns the key of a piece's results from `row` on, counted from the piece's first row. */
export function dataKey({ folder, part, piece, path, format }: Place, row: number): string {
  const under = path === '' ? '' : `${path}/`;
  return `${dataKeys(folder)}${under}part-${place(part, piece)}-${digits(row, ROW_DIGITS)}.${format}`;
}

export function reportKeys(folder: string): string {
  return `${folder}reports/`;
}

export function reportKey(folder: string, part: number, piece: number): string {
  return `${reportKeys(folder)}${place(part, piece)}.json`;
}

export function failedKeys(folder: string): string {
  return `${folder}failed/`;
}

export function failedKey(folder: string, part: number, piece: number): string {
  return `${failedKeys(folder)}${place(part, piece)}.json`;
}

export function headKey(folder: string): string {
  return `${folder}job.json`;
}

export function planKey(folder: string, run: number): string {
  return run === 1 ? `${folder}plan.jsonl` : `${resumedPlanKeys(folder)}${run}.jsonl`;
}

export function resumedPlanKeys(folder: string): string {
  return `${folder}resume-`;
}

export function manifestKey(folder: string): string {
  return `${folder}manifest.json`;
}

/** Returns the key of the object that tells why a job ended without a manifest. */
export function failureKey(folder: string): string {
  return `${folder}failure.json`;
}

/** Returns the key of the object whose presence ends running calls. */
export function cancelledKey(folder: string): string {
  return `${folder}cancelled`;
}

/** Interval of checks for cancellation. */
const CANCEL_MS = 2_000;

/**
 * Returns a function that tells if the job was cancelled. Cancelling stops the state machine; running calls stop when
 * they see the object.
 */
export function cancelWatch(storage: JobStorage, folder: string): () => Promise<boolean> {
  let askedAt = performance.now();
  let isCancelled = false;
  return async () => {
    if (isCancelled || performance.now() - askedAt < CANCEL_MS) return isCancelled;
    askedAt = performance.now();
    isCancelled = (await storage.get(cancelledKey(folder))) !== undefined;
    return isCancelled;
  };
}

/** Parses a key of {@link dataKey}: its part, its piece, and the first row of the object. */
export function dataPlaceIn(key: string) {
  const [, part, piece, row] = /\/part-(\d+)-(\d+)-(\d+)\.\w+$/.exec(key) ?? [];
  return part === undefined ? undefined : { part: Number(part), piece: Number(piece), row: Number(row) };
}

/** Parses a key of {@link reportKey} or {@link failedKey}. */
export function partAndPieceIn(key: string): { readonly part: number; readonly piece: number } | undefined {
  const [, part, piece] = /\/(\d+)-(\d+)\.json$/.exec(key) ?? [];
  return part === undefined ? undefined : { part: Number(part), piece: Number(piece) };
}

/** Formats `000042-0003`. Keys sort as numbers up to a million parts of {@link MAX_PIECES}. */
function place(part: number, piece: number): string {
  return `${digits(part, 6)}-${digits(piece, PIECE_DIGITS)}`;
}

function digits(number: number, width: number): string {
  return String(number).padStart(width, '0');
}

/** Formats parts as lines of JSON for a distributed map. */
export function linesOfPlan(parts: readonly Part[]): string {
  return parts.map((part) => `${JSON.stringify(part)}\n`).join('');
}

/** Reads the head, or returns undefined if the job is not planned yet. */
export async function readHead(storage: JobStorage, folder: string): Promise<JobHead | undefined> {
  const text = await storage.get(headKey(folder));
  return text === undefined ? undefined : parseObject(JOB_HEAD, text, headKey(folder));
}

/** Reads the parts of a plan. @throws Error if there is no plan */
export async function readParts(storage: JobStorage, key: string): Promise<Part[]> {
  const text = await storage.get(key);
  if (text === undefined) throw new Error(`${key}: expected the plan of a job, got no object; submit it again`);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => parseObject(PART, line, key));
}

/**
 * Parses a job object.
 *
 * @param what key of the object, for messages
 * @throws Error if the text does not match the schema
 */
export function parseObject<T>(schema: z.ZodType<T>, text: string, what: string): T {
  const value = parseIfJson(text);
  const parsed = schema.safeParse(value, IN_OUR_WORDS);
  if (parsed.success) return parsed.data;
  throw new Error(
    `${what}: expected the format of this version, got another (${problemsIn(parsed.error.issues, value).join('; ')}); ` +
      'continue with the version of the deployment that wrote it, or submit the job again',
  );
}
