import { parseCommand, UsageError } from './arguments.ts';
import { openOutput, refuseMissingFolder, refuseOverwriting } from './fileErrors.ts';
import { describe, MOST_SHOWN } from './inspect/describe.ts';
import type { Inspection, Sample } from './inspect/inspection.ts';
import { inspectModel } from './inspect/inspectModel.ts';
import { quoteForShell, type Senders, sendersOf } from './inspect/senders.ts';
import { modelPath } from './modelPath.ts';

const HELP = `Usage: batchscore inspect MODEL [options]

Opens a model as a host does and says what it takes and gives, whether its rows are independent,
which of its operators matter, and how to send it a request: as JSON, in binary, with the AWS CLI
and with boto3. The request is one of samples.jsonl, or made up, and was run from its text to its answer.

  MODEL             a model folder such as models/digits, a .onnx file, or the name of a model
                    in the model repository

  --models DIR      the model repository (default models)
  --samples FILE    also write the sample requests there, one a line
  --binary          in their binary form; the commands that are printed then send that
  --providers LIST  execution providers, first choice first (default cpu)
  --json            print one JSON object, nothing in it cut
  --help            show this

Exit code: 0, 1 where the model does not open, a request of samples.jsonl or every made-up one gets
no scores, or nothing can be written, 2 wrong usage.
`;

/** A word of a command line may be 128 KiB long on Linux. */
const MOST_IN_JSON = 65_536;
const WIDTH = { least: 40, most: 120, elsewhere: 100 };

type Form = 'json' | 'binary';

type SamplesCommand = ReturnType<typeof samplesCommandOf>;

const OPTIONS = {
  models: { type: 'string', default: 'models' },
  samples: { type: 'string' },
  binary: { type: 'boolean', default: false },
  providers: { type: 'string', default: 'cpu' },
  json: { type: 'boolean', default: false },
} as const;

async function run(args: readonly string[]): Promise<number> {
  const { options, positionals } = parseCommand(args, ['MODEL'], OPTIONS);
  const [name = ''] = positionals;
  const path = modelPath(name, options.models);
  if (options.samples !== undefined) await refuseMissingFolder(options.samples);
  const found = await inspectModel(path, options.providers.split(','));
  if (options.samples !== undefined) await refuseOverwriting('--samples', options.samples, [found.path]);
  const samples = found.opened?.samples ?? [];
  if (options.binary) refuseWithoutBinary(samples);
  const samplesCommand = samplesCommandOf(name, options);
  const form: Form = options.binary ? 'binary' : 'json';
  if (options.samples !== undefined) await writeSamples(options.samples, found, form);
  if (options.json) process.stdout.write(`${JSON.stringify(printedOf(found, samplesCommand))}\n`);
  else process.stdout.write(describe(found, sendersFor(samples[0], form, samplesCommand, MOST_SHOWN), width()));
  if (found.error !== undefined) throw new Error(found.error);
  const failed = found.opened?.failed;
  if (failed !== undefined)
    throw new Error(`${failed.place}: expected scores, got: ${failed.reason}; ${cureOf(found)}`);
  return 0;
}

function cureOf({ opened }: Inspection): string {
  return opened?.isMadeUp
    ? 'put requests that it answers into samples.jsonl beside config.json'
    : 'mend the line, or delete it';
}

export const inspect = { help: HELP, run };

function refuseWithoutBinary(samples: readonly Sample[]): void {
  if (samples.some(({ binary }) => binary === undefined)) {
    throw new UsageError(
      '--binary: expected a model without a transform, which takes requests of its own; leave it out',
    );
  }
}

async function writeSamples(path: string, { opened }: Inspection, form: Form): Promise<void> {
  if (opened === undefined) return;
  if (opened.noSample !== undefined)
    throw new Error(`--samples: expected a request to write, got none: ${opened.noSample}`);
  const file = await openOutput(path, 'w');
  try {
    await file.writeFile(opened.samples.map((sample) => `${sample[form]}\n`).join(''));
  } finally {
    await file.close();
  }
}

function sendersFor(
  sample: Sample | undefined,
  form: Form,
  samplesCommand: SamplesCommand,
  mostInline: number,
): Senders | undefined {
  const request = sample?.[form];
  if (request === undefined) return undefined;
  return sendersOf(request, (file) => samplesCommand(file, form), mostInline);
}

/** The command that writes the samples of this model, whatever else was asked for. */
function samplesCommandOf(
  name: string,
  { models, providers }: { readonly models: string; readonly providers: string },
) {
  const given = [
    ...(models === OPTIONS.models.default ? [] : ['--models', models]),
    ...(providers === OPTIONS.providers.default ? [] : ['--providers', providers]),
  ];
  return (file: string, form: Form): string => {
    const words = [name, ...given, ...(form === 'binary' ? ['--binary'] : []), '--samples', file];
    return ['npx batchscore inspect', ...words.map(quoteForShell)].join(' ');
  };
}

function printedOf(found: Inspection, samplesCommand: SamplesCommand) {
  const { opened, ...rest } = found;
  if (opened === undefined) return rest;
  const { samples, failed, ...aboutOpened } = opened;
  const [first] = samples;
  return {
    ...rest,
    ...aboutOpened,
    ...(failed !== undefined && { failed: { ...failed, json: JSON.parse(failed.json) } }),
    samples: samples.map(({ json, binary, answer }) => ({
      json: JSON.parse(json),
      ...(binary !== undefined && { binary: JSON.parse(binary) }),
      answer,
    })),
    send: {
      json: sendersFor(first, 'json', samplesCommand, MOST_IN_JSON),
      binary: sendersFor(first, 'binary', samplesCommand, MOST_IN_JSON),
    },
  };
}

/** Of the terminal, if there is one. */
function width(): number {
  const columns = process.stdout.columns ?? WIDTH.elsewhere;
  return Math.min(WIDTH.most, Math.max(WIDTH.least, columns));
}
