import { dirname, join } from 'node:path';
import { messageOf } from '../../lambda/core/failure.ts';
import { type ProfileFile, profilePath } from '../../lambda/onnx/profileFile.ts';
import { SETTINGS } from '../../lambda/settings.ts';
import { modelPath, parseCommand, type Streams, wholeNumber } from '../arguments.ts';
import { printableIn, progressBar, sayWhenInterrupted, writeLine, writeText } from '../terminal.ts';
import { systemReason, writeWhole } from '../textFiles.ts';
import { type Measurement, type MeasureOptions, measureModel } from './measure/measureModel.ts';
import { renderPage } from './page/profilePage.ts';
import { createReport, type ProfileReport, printedOf, renderProfile } from './profileReport.ts';
import { DEFAULTS, questionOf } from './question.ts';

const SECONDS = { default: '20', max: 3_600 };

const HELP = `Usage: batchscore profile MODEL [options]

Measures a model on this machine: what runs of more and more rows take, by length and threads, the
memory they need, what a cold start takes, and whether rows are independent. From that it finds the
settings that answer a traffic within a time at the least cost on AWS: batch size, window, memory,
concurrency. It prints them as props to paste into infra/app.ts. What was measured is kept in
profile.json beside the model. Nothing is sent anywhere.

  MODEL                    a model folder such as models/digits, a .onnx file, or the name of a
                           model in the model repository

  --models DIR             the model repository (default models)
  --rows-per-month N       how much comes, at random: dollars are those of a month of it; or
                           --rows-per-day N, --rows-per-second N
  --arrival-rate N         or messages a second, at random (default ${DEFAULTS.rate})
  --trace FILE             or when messages came: one time a line, seconds since 1970 or ISO 8601
  --latency-budget-ms N    most time from a message to its result, for 99 % of them (default ${DEFAULTS.budgetMs})
  --requests-per-message N requests in a message, of one row each (default 1)
  --request-bytes N        of a request (default: of the model's first sample, else ${DEFAULTS.requestBytes})
  --result-bytes N         of a result (default ${DEFAULTS.resultBytes})
  --packed-results         results share messages of the result queue: resultsPerMessage=fill
  --architecture NAME      of the function, arm64 or x86_64 (default ${DEFAULTS.architecture})
  --prices FILE            prices that differ from cli/prices.json
  --gpu-profile TYPE=FILE  what this command printed with --json on such an instance; may be repeated
  --length N               of rows, where lengths differ (default: that of ordinary samples)
  --seconds N              most time for the timing of runs; the rest takes some more (default ${SECONDS.default})
  --max-rows N             most rows in a run (default ${SETTINGS.maxBatchRows.default})
  --providers LIST         execution providers, first choice first (default cpu)
  --no-write               leave profile.json and profile.html as they are
  --json                   print one JSON object
  --help                   show this

docs/tuning.md says what it assumes.
Exit code: 0, 1 where it cannot go on, or no settings keep to the budget, 2 wrong usage; Ctrl-C and SIGTERM stop it.
`;

async function run(args: readonly string[], streams: Streams): Promise<number> {
  const { options, positionals } = parse(args);
  const warn = (message: string): void => writeLine(streams.stderr, message);
  const ask = await questionOf(options, warn);
  const { min, max } = SETTINGS.maxBatchRows;
  const measured = await measure(modelPath(positionals[0] ?? '', options.models), {
    maxBatchRows: wholeNumber('--max-rows', options['max-rows'], min, max),
    providers: options.providers.split(','),
    seconds: wholeNumber('--seconds', options.seconds, 1, SECONDS.max),
  });
  const report = createReport(measured, ask(measured), options.architecture);
  const { recommendation } = report;
  const kept = options['no-write'] ? report : await keep(report, warn);
  if (options.json) writeLine(streams.stdout, JSON.stringify(printedOf(kept)));
  else writeText(streams.stdout, renderProfile(printableIn(kept)));
  if (!recommendation.withinBudget) {
    throw new Error(
      `--latency-budget-ms: expected a time that some settings keep to, got ${options['latency-budget-ms']}; the soonest ` +
        `take ${Math.ceil(report.answer.chosen.p99AgeMs)} ms: allow more`,
    );
  }
  return 0;
}

export const profile = { help: HELP, run };

function parse(args: readonly string[]) {
  return parseCommand(args, ['MODEL'], {
    models: { type: 'string', default: 'models' },
    'arrival-rate': { type: 'string' },
    trace: { type: 'string' },
    'rows-per-second': { type: 'string' },
    'rows-per-day': { type: 'string' },
    'rows-per-month': { type: 'string' },
    'latency-budget-ms': { type: 'string', default: DEFAULTS.budgetMs },
    'requests-per-message': { type: 'string', default: '1' },
    'request-bytes': { type: 'string' },
    'result-bytes': { type: 'string', default: DEFAULTS.resultBytes },
    'packed-results': { type: 'boolean', default: false },
    architecture: { type: 'string' },
    prices: { type: 'string' },
    'gpu-profile': { type: 'string', multiple: true },
    length: { type: 'string' },
    seconds: { type: 'string', default: SECONDS.default },
    'max-rows': { type: 'string', default: String(SETTINGS.maxBatchRows.default) },
    providers: { type: 'string', default: 'cpu' },
    'no-write': { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  });
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

/** A folder that cannot be written to is no reason to throw away what was measured. */
async function keep(report: ProfileReport, warn: (message: string) => void): Promise<ProfileReport> {
  const path = profilePath(report.measured.path);
  let kept = report;
  for (const [file, render] of [
    [path, (of: ProfileReport) => `${JSON.stringify(profileFileOf(of), null, 2)}\n`],
    [join(dirname(path), PAGE_FILE), renderPage],
  ] as const) {
    try {
      await writeWhole(file, [render(kept)]);
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

/** What was found, for people, beside the `.onnx` file. */
const PAGE_FILE = 'profile.html';

function profileFileOf({ measured, recommendation }: ProfileReport): ProfileFile {
  const { path: _, requestBytes: __, ...kept } = measured;
  const { props: ___, ...recommended } = recommendation;
  return { schemaVersion: 1, ...kept, recommendation: recommended };
}
