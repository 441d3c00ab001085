import { UsageError, wholeNumber } from '../arguments.ts';
import type { Measurement } from './measure/measureModel.ts';
import { pricesFrom } from './prices.ts';
import { readGpuProfile } from './readGpuProfile.ts';
import { readTrace } from './readTrace.ts';
import type { Architecture } from './settings/dollars.ts';
import type { SettingsQuestion } from './settings/settings.ts';

/** What the command takes where nothing is said; the architecture is the construct's. */
export const DEFAULTS = { rate: '100', budgetMs: '2000', requestBytes: 512, resultBytes: '450', architecture: 'arm64' };

const MOST_RATE = 1_000_000;
const LONGEST_BUDGET_MS = 3_600_000;
const MOST_BYTES = 1_048_576;
const MOST_LENGTH = 1_048_576;

/** The options of the command that say what settings are looked for. */
export interface Options {
  readonly 'arrival-rate'?: string | undefined;
  readonly trace?: string | undefined;
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
  const traffic = await trafficOf(options);
  const architecture = architectureOf(options.architecture ?? DEFAULTS.architecture);
  const prices = pricesFrom(options.prices, new Date(), warn);
  const types = Object.keys(prices.instanceHour);
  const gpus = await Promise.all((options['gpu-profile'] ?? []).map((option) => readGpuProfile(option, types)));
  const messagesOf = messageOptions(options);
  const length = options.length === undefined ? undefined : wholeNumber('--length', options.length, 1, MOST_LENGTH);
  return (measured) => ({
    table: measured.table,
    length: length ?? measured.length,
    ...traffic,
    messages: messagesOf(measured),
    prices,
    architecture,
    gpus,
  });
}

async function trafficOf(
  options: Options,
): Promise<Pick<SettingsQuestion, 'trace' | 'messagesPerSecond' | 'budgetMs'>> {
  const { trace: file, 'arrival-rate': rate } = options;
  if (file !== undefined && rate !== undefined) {
    throw new UsageError('--trace: expected it without --arrival-rate, got both; a trace has its own rate');
  }
  const budgetMs = wholeNumber('--latency-budget-ms', options['latency-budget-ms'], 1, LONGEST_BUDGET_MS);
  const messagesPerSecond = rateOf(rate ?? DEFAULTS.rate);
  const trace = file === undefined ? undefined : await readTrace(file);
  return { trace, messagesPerSecond: trace?.perSecond ?? messagesPerSecond, budgetMs };
}

/** @throws UsageError unless it is a number above 0 */
function rateOf(text: string): number {
  const rate = text.trim() === '' ? Number.NaN : Number(text);
  if (rate > 0 && rate <= MOST_RATE) return rate;
  throw new UsageError(`--arrival-rate: expected messages a second, above 0 and up to ${MOST_RATE}, got '${text}'`);
}

function architectureOf(text: string): Architecture {
  if (text === 'arm64' || text === 'x86_64') return text;
  throw new UsageError(`--architecture: expected arm64 or x86_64, got '${text}'`);
}

function messageOptions(options: Options): (measured: Measurement) => SettingsQuestion['messages'] {
  const bytes = (name: 'request-bytes' | 'result-bytes', text: string) => wholeNumber(`--${name}`, text, 1, MOST_BYTES);
  const requests = wholeNumber('--requests-per-message', options['requests-per-message'], 1, 10_000);
  const given = options['request-bytes'];
  const requestBytes = given === undefined ? undefined : bytes('request-bytes', given);
  const resultBytes = requests * bytes('result-bytes', options['result-bytes']);
  return (measured) => ({
    requestsPerMessage: requests,
    messageBytes: requests * (requestBytes ?? measured.requestBytes ?? DEFAULTS.requestBytes),
    resultBytes,
    packedResults: options['packed-results'],
  });
}

/** In words. */
export function describeQuestion({ trace, messagesPerSecond, budgetMs, messages }: SettingsQuestion): string {
  const rate = `${Number(messagesPerSecond.toPrecision(3))} messages/s`;
  const how = trace === undefined ? 'at random' : `as in the trace of ${trace.times.length}`;
  const packed = messages.requestsPerMessage === 1 ? '' : ` of ${messages.requestsPerMessage} requests`;
  return `${rate}${packed} ${how}, 99 % to be answered within ${budgetMs} ms`;
}
