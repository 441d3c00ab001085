import { relative } from 'node:path';
import { plural } from '../../lambda/core/failure.ts';
import { MAX_MESSAGE_BYTES } from '../../lambda/core/limits.ts';
import { modelPath, parseCommand, type Streams } from '../arguments.ts';
import { count, size } from '../format.ts';
import { inColumns, printable, printableIn, wrapped, writeLine, writeText } from '../terminal.ts';
import { openOutput, refuseMissingFolder, refuseOverwriting } from '../textFiles.ts';
import {
  type FailedRequest,
  type Inspection,
  inspectModel,
  type Sample,
  type SampleResult,
  type Value,
} from './inspectModel.ts';

const HELP = `Usage: batchscore inspect MODEL [options]

Opens a model as a host does and says what it takes and gives, whether its rows are independent,
and how to send it a request. The request is one of samples.jsonl, or made up, and was run from its
text to its answer.

  MODEL             a model folder such as models/digits, a .onnx file, or the name of a model
                    in the model repository

  --models DIR      the model repository (default models)
  --samples FILE    also write the sample requests there, one a line
  --providers LIST  execution providers, first choice first (default cpu)
  --json            print one JSON object, nothing in it cut
  --help            show this

Exit code: 0, 1 where the model does not open, a request of samples.jsonl or every made-up one gets
no scores, or nothing can be written, 2 wrong usage.
`;

const WIDTH = { min: 40, max: 120, elsewhere: 100 };

const OPTIONS = {
  models: { type: 'string', default: 'models' },
  samples: { type: 'string' },
  providers: { type: 'string', default: 'cpu' },
  json: { type: 'boolean', default: false },
} as const;

async function run(args: readonly string[], streams: Streams): Promise<number> {
  const { options, positionals } = parseCommand(args, ['MODEL'], OPTIONS);
  const [name = ''] = positionals;
  if (options.samples !== undefined) await refuseMissingFolder(options.samples);
  const found = await inspectModel(modelPath(name, options.models), options.providers.split(','));
  if (options.samples !== undefined) await writeSamples(options.samples, found);
  if (options.json) writeLine(streams.stdout, JSON.stringify(printedOf(found)));
  else writeText(streams.stdout, describe(found, samplesCommandOf(name, options), width(streams)));
  const { failed, isMadeUp } = found;
  if (failed === undefined) return 0;
  const cure = isMadeUp
    ? 'put requests that it answers into samples.jsonl beside config.json'
    : 'mend the line, or delete it';
  throw new Error(`${failed.place}: expected scores, got: ${failed.reason}; ${cure}`);
}

export const inspect = { help: HELP, run };

async function writeSamples(path: string, { path: model, samples, noSample }: Inspection): Promise<void> {
  await refuseOverwriting('--samples', path, [model]);
  if (noSample !== undefined) throw new Error(`--samples: expected a request to write, got none: ${noSample}`);
  const file = await openOutput(path, 'w');
  try {
    await file.writeFile(samples.map(({ json }) => `${json}\n`).join(''));
  } finally {
    await file.close();
  }
}

/** Name of the `--samples` file in the printed commands. */
const FILE = 'requests.jsonl';

/** Returns the command that writes this model's samples. */
function samplesCommandOf(
  name: string,
  { models, providers }: { readonly models: string; readonly providers: string },
): string {
  const given = [
    ...(models === OPTIONS.models.default ? [] : ['--models', models]),
    ...(providers === OPTIONS.providers.default ? [] : ['--providers', providers]),
  ];
  return ['npx batchscore inspect', ...[name, ...given, '--samples', FILE].map(quoteForShell)].join(' ');
}

function quoteForShell(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function printedOf({ samples, failed, ...found }: Inspection): object {
  return {
    ...found,
    ...(failed !== undefined && { failed: { ...failed, json: JSON.parse(failed.json) } }),
    samples: samples.map(({ json, answer }) => ({ json: JSON.parse(json), answer })),
  };
}

function width(streams: Streams): number {
  const columns = streams.stdout.columns ?? WIDTH.elsewhere;
  return Math.min(WIDTH.max, Math.max(WIDTH.min, columns));
}

/**
 * Formats an inspection for a terminal of `width` columns. Requests and commands are not wrapped, so that users can
 * copy them.
 */
function describe(inspection: Inspection, samplesCommand: string, width: number): string {
  const found = printableIn(inspection);
  const { samples, failed } = inspection;
  const sections = [
    aboutModel(found, width),
    section('Inputs', valueTable(found.inputs, width)),
    section('Outputs', valueTable(found.outputs, width)),
    ...found.warnings.map((warning) => wrapped(`! ${warning}`, width).join('\n')),
    ...requests({ ...found, samples, failed }, samplesCommand, width),
  ];
  return `${sections.join('\n\n')}\n`;
}

function section(title: string, body: string): string {
  return `${title}\n${body.replace(/^(?=.)/gm, '  ')}`;
}

function aboutModel(found: Inspection, width: number): string {
  const { model, version, path, bytes, constants, samples, hasTransform } = found;
  const rows: readonly (readonly [title: string, text: string | false])[] = [
    ['model', `${model}, version ${version}`],
    ['file', `${shortPath(path)}, ${size(bytes)}`],
    ...Object.entries(found.classes).map(
      ([output, classes]) => ['classes', `the columns of ${output}: ${list(classes)}`] as const,
    ),
    ['rows', found.evidence],
    ['runs', runs(found)],
    ['ran', samples.length > 0 && ran(found)],
    ['ragged', ragged(found)],
    ['constants', constants.length > 0 && `${constants.join(', ')}, given by config.json`],
    ['transform', hasTransform && 'takes requests of its own: docs/transforms.md'],
  ];
  return inColumns(
    rows.flatMap(([title, text]) => (text === false ? [] : [[title, text]])),
    width,
  );
}

const MAX_CLASSES = 30;

function list(classes: readonly (number | string)[]): string {
  const more = classes.length - MAX_CLASSES;
  return `${classes.slice(0, MAX_CLASSES).join(', ')}${more > 0 ? ` and ${more} more: --json` : ''}`;
}

function runs({ maxBatchRows, allowedSizes, sharesRuns, inputs: [first] }: Inspection): string {
  const batch = first?.batchAxis === undefined ? undefined : first.shape?.[first.batchAxis];
  const fixed = typeof batch === 'number' && allowedSizes.length === 1;
  if (fixed && batch > 1) return `of ${batch} rows each, a fixed batch: fewer are padded`;
  if (maxBatchRows === 1) return 'of 1 row';
  if (!sharesRuns) return 'of 1 request, with all its rows';
  return allowedSizes.length > 0
    ? `of ${allowedSizes.map(count).join(', ')} rows`
    : `of up to ${count(maxBatchRows)} rows`;
}

function ran({ samples, isMadeUp }: Inspection): string {
  const [{ json, answer }] = samples as [Sample];
  const [sent, got] = [shapesIn(JSON.parse(json), 'inputs'), shapesIn(answer, 'outputs')];
  const first = sent === undefined || got === undefined ? '' : `; the first: ${sent} → ${got}`;
  return `${plural(samples.length, 'request')}, ${isMadeUp ? 'made up' : 'of samples.jsonl'}${first}`;
}

/** Returns the tensors' names and shapes, or undefined if the body is not in the canonical form. */
function shapesIn(body: SampleResult, key: 'inputs' | 'outputs'): string | undefined {
  const tensors = body[key];
  if (!Array.isArray(tensors)) return undefined;
  return tensors.map(({ name, shape }) => `${printable(name)} [${shape.join(', ')}]`).join(', ');
}

function ragged({ ragged: axis, openAxes }: Inspection): string {
  const open = openAxes.map((name) => `'${name}'`).join(', ');
  const others = `${open} may have any size, and requests that share a run agree in it`;
  if (axis === null && open === '') return 'no: all requests have one shape';
  if (axis === null) return `no: ${others}; to have it padded, see "ragged" in docs/models.md`;
  const { axis: name, inputs, allowedSizes } = axis;
  const lengths = allowedSizes.length === 0 ? 'any length' : `lengths of ${allowedSizes.map(count).join(', ')}`;
  return `'${name}' of ${inputs.join(', ')}: ${lengths}, padded within a run${open === '' ? '' : `; ${others}`}`;
}

function valueTable(values: readonly Value[], width: number): string {
  if (values.length === 0) return 'none';
  const rows = values.map(({ name, datatype, shape, batchAxis, raggedAxis }) => {
    const batch = batchAxis === undefined ? [] : [`batch axis ${batchAxis}`];
    const ragged = raggedAxis === undefined ? [] : [`ragged axis ${raggedAxis}`];
    return [
      name,
      datatype,
      shape === undefined ? 'unknown' : `[${shape.join(', ')}]`,
      [...batch, ...ragged].join(', '),
    ];
  });
  return inColumns([['name', 'datatype', 'shape', ''], ...rows], width - 2);
}

/** Maximum number of characters of a request and of an answer that are shown. */
const MAX_SHOWN = { request: 700, answer: 500 };

function requests(
  { samples, isMadeUp, noSample, failed }: Inspection,
  samplesCommand: string,
  width: number,
): string[] {
  const [sample] = samples;
  const ofFailed = failed === undefined ? [] : aboutFailed(failed, width);
  if (sample === undefined) {
    return failed === undefined ? [wrapped(`No request was run: ${noSample}.`, width).join('\n')] : ofFailed;
  }
  const origin = isMadeUp ? 'made up, and answered by the model' : 'of samples.jsonl, and answered by the model';
  return [
    `Request (${origin})\n${cut(sample.json, MAX_SHOWN.request)}`,
    `Its answer\n${cut(printable(JSON.stringify(sample.answer)), MAX_SHOWN.answer)}`,
    `To send the samples\n${samplesCommand}\nnpx batchscore submit ${FILE} --stack stack.json`,
    `To send one with the AWS CLI\n${awsCommand(sample.json, samplesCommand)}`,
    wrapped(WHERE, width).join('\n'),
    ...ofFailed,
  ];
}

function aboutFailed({ place, json, reason }: FailedRequest, width: number): string[] {
  return [
    `Request (${place}, and not answered)\n${cut(json, MAX_SHOWN.request)}`,
    `Why it failed\n${wrapped(printable(reason), width).join('\n')}`,
  ];
}

function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  return `${text.slice(0, max)}…\n(cut after ${count(max)} of ${count(text.length)} characters; --json has all of it, --samples FILE writes the requests)`;
}

/**
 * Command without the message. The endpoint is the start of the URL, because version 1 of the CLI sends to another host
 * and ignores AWS_ENDPOINT_URL.
 */
// biome-ignore lint/suspicious/noTemplateCurlyInString: it is the shell that expands it.
const SEND = 'aws sqs send-message --endpoint-url "${REQUEST_QUEUE%/*/*}" --queue-url "$REQUEST_QUEUE" --message-body';

/** Returns a command that sends a request to the queue in the environment variable REQUEST_QUEUE. */
export function awsCommand(request: string, samplesCommand: string): string {
  if (Buffer.byteLength(request) > MAX_MESSAGE_BYTES) {
    return '# More than a message of SQS holds: submit puts it into the payload bucket.';
  }
  if (request.length <= MAX_SHOWN.request) return `${SEND} ${quoteForShell(request)}`;
  return [samplesCommand, `head -n 1 ${FILE} > request.json`, `${SEND} file://request.json`].join('\n');
}

const WHERE =
  'stack.json is the first line of npm run dev, or the file that cdk deploy --outputs-file writes, and REQUEST_QUEUE ' +
  'its requestQueueUrl. npm run dev takes any credentials, and needs AWS_DEFAULT_REGION=us-east-1.';

function shortPath(path: string): string {
  const fromHere = relative('', path);
  return fromHere.startsWith('..') ? path : fromHere;
}
