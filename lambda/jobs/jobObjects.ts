import type * as z from 'zod';
import { parseIfJson } from '../core/json.ts';
import { IN_OUR_WORDS, problemsIn } from '../core/wrongValue.ts';
import { JOB_HEAD, type JobHead, type JobStorage, PART, type Part } from './jobTypes.ts';

/*
 * Where a job keeps its objects, all under one folder. They follow from part and piece alone, so that a call that is
 * made twice writes the same objects; in the order of their keys, data objects hold the rows in the order of the input.
 */

const PIECE_DIGITS = 4;
/** A piece is of 64 MiB at the most, so it has fewer rows. */
const ROW_DIGITS = 9;

/** Pieces of a part: keys of more would not sort as numbers. */
export const MAX_PIECES = 10 ** PIECE_DIGITS;

/** What a job's data objects begin with. */
export function dataKeys(folder: string): string {
  return `${folder}data/`;
}

/** Of the results of a piece's rows from `row` on, counted from its first. */
export function dataKey(folder: string, part: number, piece: number, row: number): string {
  return `${dataKeys(folder)}part-${place(part, piece)}-${digits(row, ROW_DIGITS)}.jsonl`;
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

/** Of pieces that calls have died of. */
export function suspectKeys(folder: string): string {
  return `${folder}suspects/`;
}

export function suspectKey(folder: string, part: number, piece: number): string {
  return `${suspectKeys(folder)}${place(part, piece)}.json`;
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

/** Says why a job ended without a manifest. */
export function failureKey(folder: string): string {
  return `${folder}failure.json`;
}

/** Its presence ends calls that are at work. */
export function cancelledKey(folder: string): string {
  return `${folder}cancelled`;
}

/** How often it is asked whether the job was cancelled. */
const CANCEL_MS = 2_000;

/** Cancelling stops the state machine at once; this ends the calls that are at work. */
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

/** Part and piece of a key that {@link dataKey} gave, and the row that its object begins with. */
export function dataPlaceIn(key: string) {
  const [, part, piece, row] = /\/part-(\d+)-(\d+)-(\d+)\.jsonl$/.exec(key) ?? [];
  return part === undefined ? undefined : { part: Number(part), piece: Number(piece), row: Number(row) };
}

/** Part and piece of a key that {@link reportKey} or {@link failedKey} gave. */
export function placeIn(key: string): { readonly part: number; readonly piece: number } | undefined {
  const [, part, piece] = /\/(\d+)-(\d+)\.json$/.exec(key) ?? [];
  return part === undefined ? undefined : { part: Number(part), piece: Number(piece) };
}

/** `000042-0003`: so wide that keys sort as numbers up to a million parts of {@link MAX_PIECES}. */
function place(part: number, piece: number): string {
  return `${digits(part, 6)}-${digits(piece, PIECE_DIGITS)}`;
}

function digits(number: number, width: number): string {
  return String(number).padStart(width, '0');
}

/** One part a line, as a distributed map reads them. */
export function linesOfPlan(parts: readonly Part[]): string {
  return parts.map((part) => `${JSON.stringify(part)}\n`).join('');
}

/** What planning found out; undefined before. */
export async function readHead(storage: JobStorage, folder: string): Promise<JobHead | undefined> {
  const text = await storage.get(headKey(folder));
  return text === undefined ? undefined : parseObject(JOB_HEAD, text, headKey(folder));
}

/** @throws Error when there is no plan */
export async function readParts(storage: JobStorage, key: string): Promise<Part[]> {
  const text = await storage.get(key);
  if (text === undefined) throw new Error(`${key}: expected the plan of a job, got no object; submit it again`);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => parseObject(PART, line, key));
}

/**
 * What an object of a job holds.
 *
 * @param what its key
 * @throws Error when it is not as this version writes it
 */
export function parseObject<T>(schema: z.ZodType<T>, text: string, what: string): T {
  const value = parseIfJson(text);
  const parsed = schema.safeParse(value, IN_OUR_WORDS);
  if (parsed.success) return parsed.data;
  throw new Error(
    `${what}: expected what this version writes, got another (${problemsIn(parsed.error.issues, value).join('; ')}); ` +
      'go on with the version of the deployment that wrote it, or submit the job anew',
  );
}
