import { existsSync } from 'node:fs';
import { arch } from 'node:os';
import { join } from 'node:path';
import { RANGES } from '../lambda/limits/configuration.ts';
import { parseCommand, UsageError, wholeNumber } from './arguments.ts';
import { progressBar } from './bar.ts';
import { applyContext } from './profile/applyContext.ts';
import { type MeasuredModel, measureRuns } from './profile/measureRuns.ts';
import { pricesFrom } from './profile/prices.ts';
import { readGpuProfile } from './profile/readGpuProfile.ts';
import { readTrace } from './profile/readTrace.ts';
import { recommendationOf } from './profile/recommendation.ts';
import { renderProfile } from './profile/render.ts';
import type { Architecture } from './profile/settings/dollars.ts';
import { HOST_COSTS, vcpusOf } from './profile/settings/invocation.ts';
import { type SettingsQuestion, settingsFor } from './profile/settings/settings.ts';

const DEFAULT = { rate: '100', budget: '2000', requestBytes: 512, resultBytes: '450' };
/** The construct's. */
const DEFAULT_ARCHITECTURE: Architecture = 'arm64';
const MOST_RATE = 1_000_000;
const LONGEST_BUDGET_MS = 3_600_000;
const MOST_BYTES = 1_048_576;

const HELP = `Usage: batchscore profile MODEL [options]

Times runs of a model on this machine, and finds the settings that answer a traffic within a time
at the least cost on AWS: batch size, window, memory, concurrency. Nothing is sent anywhere.

  MODEL                    a model folder such as models/digits, a .onnx file, or the name of a
                           model in the model repository

  --models DIR             the model repository (default models)
  --arrival-rate N         messages a second, at random (default ${DEFAULT.rate})
  --trace FILE             or when messages came: one time a line, seconds since 1970 or ISO 8601
  --latency-budget-ms N    most time from a message to its result, for 99 % of them (default ${DEFAULT.budget})
  --requests-per-message N requests in a message, of one row each (default 1)
  --request-bytes N        of a request (default: of the model's first sample, else ${DEFAULT.requestBytes})
  --result-bytes N         of a result (default ${DEFAULT.resultBytes})
  --packed-results         results share messages of the result queue: resultsPerMessage=fill
  --architecture NAME      of the function, arm64 or x86_64 (default ${DEFAULT_ARCHITECTURE})
  --prices FILE            prices that differ from infra/constructs/base/prices.json
  --gpu-profile TYPE=FILE  what this command printed with --json on such an instance; may be repeated
  --max-rows N             most rows in a run (default ${RANGES.maxBatchRows.default})
  --providers LIST         execution providers, first choice first (default cpu)
  --apply                  write the recommendation into the context of ./cdk.json
  --json                   print one JSON object
  --help                   show this

docs/profile.md says how it is reckoned.
`;

async function run(args: readonly string[]): Promise<number> {
  const { options, positionals } = parse(args);
  const [name = ''] = positionals;
  const { least, most } = RANGES.maxBatchRows;
  const maxBatchRows = wholeNumber('--max-rows', options['max-rows'], least, most);
  const traffic = await trafficOf(options);
  const architecture = architectureOf(options.architecture ?? DEFAULT_ARCHITECTURE);
  const prices = pricesFrom(options.prices, new Date(), warn);
  const types = Object.keys(prices.instanceHour);
  const gpus = await Promise.all((options['gpu-profile'] ?? []).map((option) => readGpuProfile(option, types)));
  const messagesOf = messageOptions(options);

  const measured = await measure(pathOf(name, options.models), maxBatchRows, options.providers.split(','));
  const question: SettingsQuestion = {
    table: measured.table,
    length: measured.table[0]?.length ?? 1,
    ...traffic,
    messages: messagesOf(measured),
    prices,
    architecture,
    gpus,
  };
  const answer = settingsFor(question);
  const recommendation = recommendationOf(answer, options.architecture);
  if (options.apply) await applyContext('cdk.json', recommendation.context);
  const { table, safety, model } = measured;
  const { forms, candidates, breakEvens } = answer;
  process.stdout.write(
    options.json
      ? `${JSON.stringify({ model, safety, table, recommendation, candidates, forms, breakEvens })}\n`
      : renderProfile({
          measured,
          answer,
          recommendation,
          question: describe(question),
          notes: notesOf(question, measured, recommendation.memoryMb),
        }),
  );
  if (options.apply) warn(`wrote ${Object.keys(recommendation.context).join(', ')} into cdk.json`);
  return 0;
}

export const profile = { help: HELP, run };

function parse(args: readonly string[]) {
  return parseCommand(args, ['MODEL'], {
    models: { type: 'string', default: 'models' },
    'arrival-rate': { type: 'string' },
    trace: { type: 'string' },
    'latency-budget-ms': { type: 'string', default: DEFAULT.budget },
    'requests-per-message': { type: 'string', default: '1' },
    'request-bytes': { type: 'string' },
    'result-bytes': { type: 'string', default: DEFAULT.resultBytes },
    'packed-results': { type: 'boolean', default: false },
    architecture: { type: 'string' },
    prices: { type: 'string' },
    'gpu-profile': { type: 'string', multiple: true },
    'max-rows': { type: 'string', default: String(RANGES.maxBatchRows.default) },
    providers: { type: 'string', default: 'cpu' },
    apply: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  });
}

type Options = ReturnType<typeof parse>['options'];

/** A path, or a name in the model repository where there is no such path. */
function pathOf(name: string, models: string): string {
  const inRepository = join(models, name);
  return !existsSync(name) && existsSync(inRepository) ? inRepository : name;
}

async function trafficOf(
  options: Options,
): Promise<Pick<SettingsQuestion, 'trace' | 'messagesPerSecond' | 'budgetMs'>> {
  const { trace: file, 'arrival-rate': rate } = options;
  if (file !== undefined && rate !== undefined) {
    throw new UsageError('--trace: expected it without --arrival-rate, got both; a trace has its own rate');
  }
  const budgetMs = wholeNumber('--latency-budget-ms', options['latency-budget-ms'], 1, LONGEST_BUDGET_MS);
  const messagesPerSecond = rateOf(rate ?? DEFAULT.rate);
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

/** What does not wait for the model is checked before it is measured. */
function messageOptions(options: Options): (measured: MeasuredModel) => SettingsQuestion['messages'] {
  const bytes = (name: 'request-bytes' | 'result-bytes', text: string) => wholeNumber(`--${name}`, text, 1, MOST_BYTES);
  const requests = wholeNumber('--requests-per-message', options['requests-per-message'], 1, 10_000);
  const given = options['request-bytes'];
  const requestBytes = given === undefined ? undefined : bytes('request-bytes', given);
  const resultBytes = requests * bytes('result-bytes', options['result-bytes']);
  return (measured) => ({
    requestsPerMessage: requests,
    messageBytes: requests * (requestBytes ?? measured.requestBytes ?? DEFAULT.requestBytes),
    resultBytes,
    packedResults: options['packed-results'],
  });
}

async function measure(path: string, maxBatchRows: number, providers: readonly string[]): Promise<MeasuredModel> {
  let bar: ReturnType<typeof progressBar> | undefined;
  const onProgress = (done: number, all: number): void => {
    bar ??= progressBar('measuring', all, 'count');
    bar.update(done);
  };
  try {
    return await measureRuns(path, { maxBatchRows, providers, warn, onProgress });
  } finally {
    bar?.stop();
  }
}

function warn(message: string): void {
  process.stderr.write(`${message}\n`);
}

function describe({ trace, messagesPerSecond, budgetMs, messages }: SettingsQuestion): string {
  const rate = `${Number(messagesPerSecond.toPrecision(3))} messages/s`;
  const how = trace === undefined ? 'at random' : `as in the trace of ${trace.times.length}`;
  const packed = messages.requestsPerMessage === 1 ? '' : ` of ${messages.requestsPerMessage} requests`;
  return `${rate}${packed} ${how}, 99 % to be answered within ${budgetMs} ms`;
}

function notesOf(
  { prices, architecture, messages }: SettingsQuestion,
  { loadSeconds }: MeasuredModel,
  memoryMb: number,
): string[] {
  const { messageMs, requestMs, roundTripMs } = HOST_COSTS;
  const here = arch() === 'arm64' ? 'arm64' : 'x86_64';
  return [
    `Runs were timed on this machine (${here}); a function's share of a vCPU is taken to be as fast${here === architecture ? '' : `, also on ${architecture}, where nothing was measured`}.`,
    `A new environment also loads the model, about ${(loadSeconds / Math.min(1, vcpusOf(memoryMb))).toFixed(1)} s with ${memoryMb} MB; its first messages wait for that, which no age above holds.`,
    `Besides the runs, an invocation takes ${messageMs} ms a message, ${requestMs} ms a request and ${roundTripMs} ms for calls to SQS: assumed, not measured here.`,
    `A request is taken to have ${messages.messageBytes / messages.requestsPerMessage} bytes, a result ${messages.resultBytes / messages.requestsPerMessage}.`,
    `Prices of ${prices.date}, ${prices.region}, without logs, metrics, alarms and storage. What is not measured has no price.`,
  ];
}
