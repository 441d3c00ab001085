import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { messageOf } from '../../lambda/core/failure.ts';
import { MAX_MESSAGE_BYTES } from '../../lambda/core/limits.ts';
import { IN_OUR_WORDS, problemsIn } from '../../lambda/core/wrongValue.ts';
import { MEASURED_RUNS } from '../../lambda/onnx/profileFile.ts';
import { UsageError, wholeNumber } from '../arguments.ts';
import { PRICES, type Prices, readPrices } from '../priceList.ts';
import { systemReason } from '../textFiles.ts';
import type { Measurement } from './measure/measureModel.ts';
import type { GpuProfile, SettingsQuestion } from './settings/chooseSettings.ts';
import { SECONDS_A_DAY, SECONDS_A_MONTH } from './settings/monthlyCosts.ts';
import { type Arrivals, traceArrivals } from './settings/simulate.ts';

/** What the command takes where nothing is said; the architecture is the construct's. */
export const DEFAULTS = { rate: '100', budgetMs: '2000', requestBytes: 512, resultBytes: '450', architecture: 'arm64' };

const MAX_RATE = 1_000_000;
const LONGEST_BUDGET_MS = 3_600_000;
const MAX_LENGTH = 1_048_576;

/** The options of the command that say what settings are looked for. */
interface Options {
  readonly 'arrival-rate'?: string | undefined;
  readonly trace?: string | undefined;
  readonly 'rows-per-second'?: string | undefined;
  readonly 'rows-per-day'?: string | undefined;
  readonly 'rows-per-month'?: string | undefined;
  readonly 'latency-budget-ms': string;
  readonly 'requests-per-message': string;
  readonly 'request-bytes'?: string | undefined;
  readonly 'result-bytes': string;
  readonly 'packed-results': boolean;
  readonly architecture?: string | undefined;
  readonly prices?: string | undefined;
  readonly 'gpu-profile'?: readonly string[] | undefined;
  readonly length?: string | undefined;
}

/**
 * What settings are looked for: all that does not wait for the model is checked before it is measured.
 *
 * @param warn told of old prices
 * @throws UsageError for an option, Error for a file that it names
 */
export async function questionOf(
  options: Options,
  warn: (message: string) => void,
): Promise<(measured: Measurement) => SettingsQuestion> {
  const { trace: file, 'request-bytes': given, architecture = DEFAULTS.architecture } = options;
  const [one, other] = TRAFFIC.filter((name) => options[name] !== undefined);
  if (one !== undefined && other !== undefined) {
    throw new UsageError(`--${other}: expected it without --${one}, got both; each says how much comes`);
  }
  if (architecture !== 'arm64' && architecture !== 'x86_64') {
    throw new UsageError(`--architecture: expected arm64 or x86_64, got '${architecture}'`);
  }
  const budgetMs = wholeNumber('--latency-budget-ms', options['latency-budget-ms'], 1, LONGEST_BUDGET_MS);
  const requests = wholeNumber('--requests-per-message', options['requests-per-message'], 1, 10_000);
  const requestBytes = given === undefined ? undefined : wholeNumber('--request-bytes', given, 1, MAX_MESSAGE_BYTES);
  const resultBytes = wholeNumber('--result-bytes', options['result-bytes'], 1, MAX_MESSAGE_BYTES);
  const length = options.length === undefined ? undefined : wholeNumber('--length', options.length, 1, MAX_LENGTH);
  const messagesPerSecond = rateOf(options, requests);
  const trace = file === undefined ? undefined : await readTrace(file);
  const prices = pricesFrom(options.prices, new Date(), warn);
  const types = Object.keys(prices.instanceHour);
  const gpus = await Promise.all((options['gpu-profile'] ?? []).map((option) => readGpuProfile(option, types)));
  return (measured) => ({
    table: measured.table,
    length: length ?? measured.length,
    trace,
    messagesPerSecond: trace?.perSecond ?? messagesPerSecond,
    budgetMs,
    messages: {
      requestsPerMessage: requests,
      messageBytes: requests * (requestBytes ?? measured.requestBytes ?? DEFAULTS.requestBytes),
      resultBytes: requests * resultBytes,
      packedResults: options['packed-results'],
    },
    prices,
    architecture,
    gpus,
  });
}

/** Each says how much comes, in its own words. */
const TRAFFIC = ['arrival-rate', 'rows-per-second', 'rows-per-day', 'rows-per-month', 'trace'] as const;
const ROWS_OVER = { 'rows-per-second': 1, 'rows-per-day': SECONDS_A_DAY, 'rows-per-month': SECONDS_A_MONTH } as const;

/** Messages a second. @throws UsageError unless what was given is a number above 0 */
function rateOf(options: Options, requestsPerMessage: number): number {
  const name = (Object.keys(ROWS_OVER) as (keyof typeof ROWS_OVER)[]).find((one) => options[one] !== undefined);
  const text = name === undefined ? (options['arrival-rate'] ?? DEFAULTS.rate) : (options[name] ?? '');
  const over = name === undefined ? 1 : ROWS_OVER[name] * requestsPerMessage;
  const rate = text.trim() === '' ? Number.NaN : Number(text.replaceAll(/(?<=\d)[,_](?=\d{3})/g, '')) / over;
  if (rate > 0 && rate <= MAX_RATE) return rate;
  const unit = name === undefined ? 'messages a second' : name.replace('rows-per-', 'rows a ');
  throw new UsageError(
    `--${name ?? 'arrival-rate'}: expected ${unit}, above 0 and up to ${Math.floor(MAX_RATE * over)}, got '${text}'`,
  );
}

const MAX_MONTHS = 6;

/**
 * The price list of the construct, with those of a file in place of its own.
 *
 * @param warn told of prices that are older than six months
 * @throws Error when the file is not a price list
 */
export function pricesFrom(file: string | undefined, now: Date, warn: (message: string) => void): Prices {
  const prices = { ...PRICES, ...(file === undefined ? {} : readPrices(file)) };
  const where = file ?? 'cli/prices.json';
  const months = monthsSince(prices.date, now);
  if (!(months <= MAX_MONTHS)) {
    warn(
      `${where}: expected prices of the last ${MAX_MONTHS} months, got the date ${prices.date}; look them up again, and ` +
        'give a file with those that changed and their date as --prices',
    );
  }
  return prices;
}

/** NaN where the date does not begin with a year and a month. */
function monthsSince(date: string, now: Date): number {
  const [, year, month] = /^(\d{4})-(\d{2})\b/.exec(date) ?? [];
  return (now.getUTCFullYear() - Number(year)) * 12 + now.getUTCMonth() + 1 - Number(month);
}

const MAX_LINES = 50_000;

/**
 * Messages that came at the times in a file: one a line, seconds since 1970 or ISO 8601, in any order.
 *
 * @throws Error naming the file, the line and what is wrong with it
 */
export async function readTrace(path: string): Promise<Arrivals> {
  const lines = (await textOf(path)).split('\n').map((line) => line.trim());
  const times = Float64Array.from(
    lines.flatMap((line, index) => (line === '' ? [] : [timeOf(line, `${path}:${index + 1}`)])),
  ).sort();
  if (times.length > MAX_LINES) {
    throw new Error(`${path}: expected at most ${MAX_LINES} times, got ${times.length}; cut out the busiest part`);
  }
  if (times.length < 2 || times[0] === times.at(-1)) {
    throw new Error(`${path}: expected two times that differ, or more, got ${times.length}; give one a line`);
  }
  return traceArrivals(times);
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    const reason = systemReason(cause) ?? String(cause);
    throw new Error(`${path}: expected a file of times, got: ${reason}; check the path`, { cause });
  }
}

const ISO_DATE = /^\d{4}-\d{2}-\d{2}T/;

/** Milliseconds since 1970. */
function timeOf(line: string, where: string): number {
  const ms = ISO_DATE.test(line) ? Date.parse(line) : Number(line) * 1000;
  if (Number.isFinite(ms)) return ms;
  throw new Error(
    `${where}: expected seconds since 1970 or a time as ISO 8601, got '${line.slice(0, 40)}'; correct it`,
  );
}

const PROFILE = z.object({ table: MEASURED_RUNS });

/**
 * What was measured on an instance with a GPU.
 *
 * @param option `TYPE=FILE`, such as `g5.xlarge=g5.json`
 * @param types instance types with a price
 * @throws UsageError for another form, Error for a file that is no profile
 */
async function readGpuProfile(option: string, types: readonly string[]): Promise<GpuProfile> {
  const [instanceType = '', ...rest] = option.split('=');
  const file = rest.join('=');
  if (file === '' || !types.includes(instanceType)) {
    throw new UsageError(`--gpu-profile: expected TYPE=FILE with a type among ${types.join(', ')}, got '${option}'`);
  }
  try {
    const value: unknown = JSON.parse(await readFile(file, 'utf8'));
    const { data, error } = PROFILE.safeParse(value, IN_OUR_WORDS);
    if (data !== undefined) return { instanceType, ...data };
    throw new Error(problemsIn(error.issues, value).join('; '));
  } catch (cause) {
    const reason = systemReason(cause) ?? (cause instanceof SyntaxError ? 'no JSON' : messageOf(cause));
    throw new Error(
      `${file}: expected what batchscore profile MODEL --json printed on ${instanceType}, got: ${reason}; print it anew`,
      { cause },
    );
  }
}
