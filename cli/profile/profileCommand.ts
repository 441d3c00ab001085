import { dirname, join } from 'node:path';
import { messageOf } from '../../lambda/core/failure.ts';
import { type ProfileFile, profilePath } from '../../lambda/onnx/profileFile.ts';
import { SETTINGS } from '../../lambda/settings.ts';
import { modelPath, parseCommand, type Streams, UsageError, type Values, wholeNumber } from '../arguments.ts';
import { reportPage } from '../page/pageFiles.ts';
import { printableIn, progressBar, sayWhenInterrupted, writeLine, writeText } from '../terminal.ts';
import { systemReason, writeWhole } from '../textFiles.ts';
import type { SettingsQuestion } from './chooseSettings.ts';
import { gatheringMs, SECONDS_A_MONTH } from './costs.ts';
import { type Measurement, type MeasureOptions, measureModel } from './measure/measureModel.ts';
import { createReport, type ProfileReport, pageOf, printedOf, renderProfile } from './profileReport.ts';

const SECONDS = { default: '20', max: 3_600 };
const DEFAULTS = { rate: '100', budgetMs: '2000' };
/** Bytes of a request if there are no samples, and of a result. */
const BYTES = { request: 512, result: 450 };

const HELP = `Usage: batchscore profile MODEL [options]

Measures a model on this machine: what runs of more and more rows take, by length and threads, the
memory they need, what a cold start takes, and whether rows are independent. From that it finds the
settings that answer a traffic within a time at the least cost on AWS: batch size, window, memory,
concurrency. It prints them as props to paste into infra/app.ts. What was measured is kept in
profile.json beside the model, with a page. Nothing is sent anywhere.

  MODEL                    a model folder such as models/digits, a .onnx file, or the name of a
                           model in the model repository

  --models DIR             the model repository (default models)
  --rows-per-month N       how many rows come, at random times
  --arrival-rate N         or messages a second (default ${DEFAULTS.rate})
  --latency-budget-ms N    most time from a request to its result, for 99 % of them (default ${DEFAULTS.budgetMs})
  --requests-per-message N requests in a message, of one row each, gathered as they come (default 1)
  --seconds N              most time for the timing of runs; the rest takes some more (default ${SECONDS.default})
  --max-rows N             most rows in a run (default ${SETTINGS.maxBatchRows.default})
  --providers LIST         execution providers, first choice first (default cpu)
  --no-write               leave profile.json and profile.html as they are
  --json                   print one JSON object
  --help                   show this

docs/tuning.md says how it is reckoned.
Exit code: 0, 1 if it cannot go on or no settings keep to the budget, 2 wrong usage; Ctrl-C and SIGTERM stop it.
`;

const TRAFFIC_OPTIONS = {
  'rows-per-month': { type: 'string' },
  'arrival-rate': { type: 'string' },
  'latency-budget-ms': { type: 'string', default: DEFAULTS.budgetMs },
  'requests-per-message': { type: 'string', default: '1' },
} as const;

const OPTIONS = {
  ...TRAFFIC_OPTIONS,
  models: { type: 'string', default: 'models' },
  seconds: { type: 'string', default: SECONDS.default },
  'max-rows': { type: 'string', default: String(SETTINGS.maxBatchRows.default) },
  providers: { type: 'string', default: 'cpu' },
  'no-write': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
} as const;

async function run(args: readonly string[], streams: Streams): Promise<number> {
  const { options, positionals } = parseCommand(args, ['MODEL'], OPTIONS);
  const warn = (message: string): void => writeLine(streams.stderr, message);
  const ask = questionOf(options);
  const { min, max } = SETTINGS.maxBatchRows;
  const measured = await measure(modelPath(positionals[0] ?? '', options.models), {
    maxBatchRows: wholeNumber('--max-rows', options['max-rows'], min, max),
    providers: options.providers.split(','),
    seconds: wholeNumber('--seconds', options.seconds, 1, SECONDS.max),
  });
  const report = createReport(measured, ask(measured));
  const kept = options['no-write'] ? report : await keep(report, warn);
  if (options.json) writeLine(streams.stdout, JSON.stringify(printedOf(kept)));
  else writeText(streams.stdout, renderProfile({ ...kept, measured: printableIn(kept.measured) }));
  if (!report.recommendation.withinBudget) {
    const gatheredMs = Math.ceil(gatheringMs(report.question));
    const [gathering, cure] =
      gatheredMs === 0
        ? ['', '']
        : [`, ${gatheredMs} ms of them to gather a message`, ', or fewer --requests-per-message'];
    throw new Error(
      `--latency-budget-ms: expected a time that some settings keep to, got ${options['latency-budget-ms']}; the soonest ` +
        `take ${Math.ceil(report.answer.chosen.p99AgeMs)} ms${gathering}: allow more${cure}`,
    );
  }
  return 0;
}

export const profile = { help: HELP, run };

type Asked = Values<typeof TRAFFIC_OPTIONS>;

const LONGEST_BUDGET_MS = 3_600_000;

/**
 * Reads the options for the settings. Options that do not depend on the model are checked before it is measured.
 *
 * @throws UsageError for an invalid option
 */
export function questionOf(options: Asked): (measured: Measurement) => SettingsQuestion {
  const budgetMs = wholeNumber('--latency-budget-ms', options['latency-budget-ms'], 1, LONGEST_BUDGET_MS);
  const requests = wholeNumber('--requests-per-message', options['requests-per-message'], 1, 10_000);
  const messagesPerSecond = rateOf(options, requests);
  return ({ table, length, requestBytes = BYTES.request }) => ({
    table,
    length,
    messagesPerSecond,
    budgetMs,
    messages: {
      requestsPerMessage: requests,
      messageBytes: requests * requestBytes,
      resultBytes: requests * BYTES.result,
    },
  });
}

const MAX_RATE = 1_000_000;

/** Returns messages per second. @throws UsageError unless the option is a number above 0 */
function rateOf({ 'rows-per-month': rows, 'arrival-rate': rate }: Asked, perMessage: number): number {
  const isMonthly = rows !== undefined;
  if (isMonthly && rate !== undefined) {
    throw new UsageError('--arrival-rate: expected it without --rows-per-month, got both; each says how much comes');
  }
  const [option, unit, text] = isMonthly
    ? ['--rows-per-month', 'rows a month', rows]
    : ['--arrival-rate', 'messages a second', rate ?? DEFAULTS.rate];
  const over = isMonthly ? SECONDS_A_MONTH * perMessage : 1;
  const value = text.trim() === '' ? Number.NaN : Number(text.replaceAll(/(?<=\d)[,_](?=\d{3})/g, '')) / over;
  if (value > 0 && value <= MAX_RATE) return value;
  throw new UsageError(`${option}: expected ${unit}, above 0 and up to ${Math.floor(MAX_RATE * over)}, got '${text}'`);
}

async function measure(
  path: string,
  options: Pick<MeasureOptions, 'maxBatchRows' | 'providers' | 'seconds'>,
): Promise<Measurement> {
  const bar = progressBar('measuring', 1);
  const finished = sayWhenInterrupted('stopped; what was measured is not kept');
  try {
    return await measureModel(path, { ...options, onProgress: bar.update });
  } finally {
    bar.stop();
    finished();
  }
}

/** Writes the report's files. If the folder cannot be written to, it warns and keeps the measurement. */
async function keep(report: ProfileReport, warn: (message: string) => void): Promise<ProfileReport> {
  const path = profilePath(report.measured.path);
  let kept = report;
  for (const [file, render] of [
    [path, async (of: ProfileReport) => `${JSON.stringify(profileFileOf(of), null, 2)}\n`],
    [join(dirname(path), PAGE_FILE), (of: ProfileReport) => reportPage(pageOf(of))],
  ] as const) {
    try {
      await writeWhole(file, [await render(kept)]);
      warn(`wrote ${file}`);
    } catch (error) {
      const { measured } = kept;
      const reason = systemReason(error instanceof Error ? (error.cause ?? error) : error) ?? messageOf(error);
      const finding =
        `${file}: expected a folder that can be written to, got: ${reason}; what was measured is not kept: copy the ` +
        'model elsewhere, or give --no-write';
      kept = { ...kept, measured: { ...measured, findings: [...measured.findings, finding] } };
    }
  }
  return kept;
}

/** Name of the page for people. It is next to the `.onnx` file. */
const PAGE_FILE = 'profile.html';

function profileFileOf({ measured, recommendation }: ProfileReport): ProfileFile {
  const { path: _, requestBytes: __, ...kept } = measured;
  const { props: ___, ...recommended } = recommendation;
  return { schemaVersion: 1, ...kept, recommendation: recommended };
}
