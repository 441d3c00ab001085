import { relative } from 'node:path';
import { plural } from '../../lambda/core/failure.ts';
import { isObject } from '../../lambda/core/json.ts';
import { MAX_MESSAGE_BYTES } from '../../lambda/core/limits.ts';
import { modelPath, parseCommand, type Streams } from '../arguments.ts';
import { count, size } from '../format.ts';
import { inColumns, printable, printableIn, wrapped, writeLine, writeText } from '../terminal.ts';
import { openOutput, refuseMissingFolder, refuseOverwriting } from '../textFiles.ts';
import {
  type FailedRequest,
  type Inspection,
  inspectModel,
  type Opened,
  type Sample,
  type SampleResult,
  type Value,
} from './inspectModel.ts';

const HELP = `Usage: batchscore inspect MODEL [options]

Opens a model as a host does and says what it takes and gives, whether its rows are independent,
which of its operators matter, and how to send it a request: as JSON, in binary, with the AWS CLI
and with boto3. The request is one of samples.jsonl, or made up, and was run from its text to its answer.

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

/** Maximum length of a request in a command. Linux limits one argument to 128 KiB. */
const MAX_IN_JSON = 65_536;
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
  const path = modelPath(name, options.models);
  if (options.samples !== undefined) await refuseMissingFolder(options.samples);
  const found = await inspectModel(path, options.providers);
  if (options.samples !== undefined) await refuseOverwriting('--samples', options.samples, [found.path]);
  const samples = found.opened?.samples ?? [];
  const samplesCommand = samplesCommandOf(name, options);
  if (options.samples !== undefined) await writeSamples(options.samples, found);
  if (options.json) writeLine(streams.stdout, JSON.stringify(printedOf(found, samplesCommand)));
  else writeText(streams.stdout, describe(found, sendersFor(samples, samplesCommand, MAX_SHOWN), width(streams)));
  if (found.error !== undefined) throw new Error(found.error);
  const failed = found.opened?.failed;
  if (failed !== undefined) {
    const cure = found.opened?.isMadeUp
      ? 'put requests that it answers into samples.jsonl beside config.json'
      : 'mend the line, or delete it';
    throw new Error(`${failed.place}: expected scores, got: ${failed.reason}; ${cure}`);
  }
  return 0;
}

export const inspect = { help: HELP, run };

async function writeSamples(path: string, { opened }: Inspection): Promise<void> {
  if (opened === undefined) return;
  if (opened.noSample !== undefined)
    throw new Error(`--samples: expected a request to write, got none: ${opened.noSample}`);
  const file = await openOutput(path, 'w');
  try {
    await file.writeFile(opened.samples.map(({ json }) => `${json}\n`).join(''));
  } finally {
    await file.close();
  }
}

function sendersFor([sample]: readonly Sample[], samplesCommand: string, maxInline: number): Senders | undefined {
  return sample && sendersOf(sample.json, samplesCommand, maxInline);
}

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

function printedOf(found: Inspection, samplesCommand: string) {
  const { opened, ...rest } = found;
  if (opened === undefined) return rest;
  const { samples, failed, ...aboutOpened } = opened;
  return {
    ...rest,
    ...aboutOpened,
    ...(failed !== undefined && { failed: { ...failed, json: JSON.parse(failed.json) } }),
    samples: samples.map(({ json, binary, answer }) => ({
      json: JSON.parse(json),
      ...(binary !== undefined && { binary: JSON.parse(binary) }),
      answer,
    })),
    send: sendersFor(samples, samplesCommand, MAX_IN_JSON),
  };
}

function width(streams: Streams): number {
  const columns = streams.stdout.columns ?? WIDTH.elsewhere;
  return Math.min(WIDTH.max, Math.max(WIDTH.min, columns));
}

/** Maximum number of characters of a request that are shown. */
const MAX_SHOWN = 700;
const MAX_ANSWER = 500;

/**
 * Formats an inspection for a terminal of `width` columns. Requests and commands are not wrapped, so that users can
 * copy them.
 */
function describe(inspection: Inspection, senders: Senders | undefined, width: number): string {
  const found = printableIn(inspection);
  const { opened } = found;
  // Requests are not wrapped or shortened, so that users can copy them.
  const { samples = [], failed } = inspection.opened ?? {};
  const operators = found.notableOperators.map(({ names, count: uses, why }) => [
    `${count(uses)} ×`,
    `${names.join(', ')}: ${why}`,
  ]);
  const sections = [
    aboutModel(found, width),
    section('Inputs', valueTable(found.inputs, width)),
    section('Outputs', valueTable(found.outputs, width)),
    ...(operators.length === 0 ? [] : [section('Operators that matter', inColumns(operators, width - 2))]),
    ...(opened === undefined ? [] : opened.warnings.map((warning) => wrapped(`! ${warning}`, width).join('\n'))),
    ...(opened === undefined ? [] : requests({ ...opened, samples, failed }, senders, width)),
  ];
  return `${sections.join('\n\n')}\n`;
}

function section(title: string, body: string): string {
  return `${title}\n${body.replace(/^(?=.)/gm, '  ')}`;
}

function aboutModel(found: Inspection, width: number): string {
  const { model, version, path, file, opened } = found;
  const weights = file.weights.map(({ file: name, bytes }) => `, and ${size(bytes)} in ${name}`);
  const rows = [
    ['model', `${model}, version ${version}`],
    ['file', `${shortPath(path)}, ${size(file.bytes)}${weights.join('')}`],
    ...(opened === undefined ? [] : aboutRows(opened, found.inputs)),
  ];
  return inColumns(rows, width);
}

function aboutRows(opened: Opened, inputs: readonly Value[]): string[][] {
  const { constants, leftOut, samples, hasTransform, takesText } = opened;
  const rows: readonly (readonly [title: string, text: string | false])[] = [
    ['rows', opened.evidence],
    ['runs', runs(opened, inputs)],
    ['ran', samples.length > 0 && ran(opened)],
    ['ragged', ragged(opened)],
    ['constants', constants.length > 0 && `${constants.join(', ')}, given by config.json`],
    ['left out', leftOut.length > 0 && `${leftOut.join(', ')}, which "outputs" in config.json does not name`],
    ['tokenizer', takesText && 'takes texts: docs/models.md#texts'],
    ['transform', hasTransform && !takesText && 'takes requests of its own: docs/transforms.md'],
  ];
  return rows.flatMap(([title, text]) => (text === false ? [] : [[title, text]]));
}

function runs({ maxBatchRows, allowedSizes, sharesRuns }: Opened, inputs: readonly Value[]): string {
  const [first] = inputs;
  const batch = first?.batchAxis === undefined ? undefined : first.shape?.[first.batchAxis];
  const fixed = typeof batch === 'number' && allowedSizes.length === 1;
  if (fixed && batch > 1) return `of ${batch} rows each, a fixed batch: fewer are padded`;
  if (maxBatchRows === 1) return 'of 1 row';
  if (!sharesRuns) return 'of 1 request, with all its rows';
  return allowedSizes.length > 0
    ? `of ${allowedSizes.map(count).join(', ')} rows`
    : `of up to ${count(maxBatchRows)} rows`;
}

function ran({ samples, isMadeUp }: Opened): string {
  const [{ json, binary, answer }] = samples as [Sample];
  const origin = isMadeUp ? 'made up' : 'of samples.jsonl';
  const forms = binary === undefined ? 'as they are' : 'as JSON and in binary';
  const [sent, got] = [shapesIn(JSON.parse(json), 'inputs'), shapesIn(answer, 'outputs')];
  const first = sent === undefined || got === undefined ? '' : `; the first: ${sent} → ${got}`;
  return `${plural(samples.length, 'request')}, ${origin}, ${forms}${first}`;
}

/** Returns the tensors' names and shapes, or undefined if the body is not in the canonical form. */
function shapesIn(body: SampleResult, key: 'inputs' | 'outputs'): string | undefined {
  const tensors = body[key];
  if (!Array.isArray(tensors)) return undefined;
  return tensors.map(({ name, shape }) => `${printable(name)} [${shape.join(', ')}]`).join(', ');
}

function ragged({ ragged: axis, openAxes }: Opened): string {
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

function requests(opened: Opened, senders: Senders | undefined, width: number): string[] {
  const { samples, isMadeUp, noSample, failed } = opened;
  const [sample] = samples;
  const ofFailed = failed === undefined ? [] : aboutFailed(failed, width);
  if (sample === undefined || senders === undefined) {
    return failed === undefined ? [wrapped(`No request was run: ${noSample}.`, width).join('\n')] : ofFailed;
  }
  const origin = isMadeUp ? 'made up, and answered by the model' : 'of samples.jsonl, and answered by the model';
  return [
    `Request (${origin})\n${cut(sample.json, MAX_SHOWN)}`,
    ...(sample.binary === undefined ? [] : [`The same in binary\n${cut(sample.binary, MAX_SHOWN)}`]),
    `Its answer\n${cut(printable(JSON.stringify(sample.answer)), MAX_ANSWER)}`,
    `With the AWS CLI\n${senders.awsCli}`,
    `With boto3\n${senders.boto3}`,
    `${wrapped(WHERE, width).join('\n')}\n${LOCAL}`,
    ...ofFailed,
  ];
}

function aboutFailed({ place, json, reason }: FailedRequest, width: number): string[] {
  return [
    `Request (${place}, and not answered)\n${cut(json, MAX_SHOWN)}`,
    `Why it failed\n${wrapped(printable(reason), width).join('\n')}`,
  ];
}

const WHERE =
  'REQUEST_QUEUE is requestQueueUrl of the first line of npm run dev, or of the stack.json that cdk deploy wrote. For ' +
  'npm run dev also:';
const LOCAL =
  'export REQUEST_QUEUE=http://127.0.0.1:4566/000000000000/batchscore-requests AWS_ENDPOINT_URL=http://127.0.0.1:4566 ' +
  'AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local';

function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  return `${text.slice(0, max)}…\n(cut after ${count(max)} of ${count(text.length)} characters; --json has all of it, --samples FILE writes the requests)`;
}

function shortPath(path: string): string {
  const fromHere = relative('', path);
  return fromHere.startsWith('..') ? path : fromHere;
}

/** Commands that send a request with other tools. They work as printed. */
interface Senders {
  readonly awsCli: string;
  readonly boto3: string;
}

/** Name of the `--samples` file in the printed commands. */
const FILE = 'requests.jsonl';
/**
 * Command without the message. The endpoint is the start of the URL, because version 1 of the CLI sends to another host
 * and ignores AWS_ENDPOINT_URL.
 */
// biome-ignore lint/suspicious/noTemplateCurlyInString: it is the shell that expands it.
const SEND = 'aws sqs send-message --endpoint-url "${REQUEST_QUEUE%/*/*}" --queue-url "$REQUEST_QUEUE" --message-body';

/**
 * Returns commands that send a request with the AWS CLI and with boto3 to the queue in the environment variable
 * REQUEST_QUEUE.
 *
 * @param request JSON text of one line
 * @param samplesCommand command that writes the request as the first line of `FILE`. It is used for long requests.
 * @param maxInline maximum number of characters of a request that the commands contain
 */
export function sendersOf(request: string, samplesCommand: string, maxInline: number): Senders {
  if (Buffer.byteLength(request) > MAX_MESSAGE_BYTES) return tooLarge(samplesCommand);
  return request.length <= maxInline ? inline(request) : fromFile(samplesCommand);
}

function inline(request: string): Senders {
  return {
    awsCli: `${SEND} ${quoteForShell(request)}`,
    boto3: [
      'import json, os',
      'import boto3',
      '',
      `request = ${pythonOf(JSON.parse(request))}`,
      ...sending('json.dumps(request)'),
    ].join('\n'),
  };
}

function fromFile(samplesCommand: string): Senders {
  return {
    awsCli: [samplesCommand, `head -n 1 ${FILE} > request.json`, `${SEND} file://request.json`].join('\n'),
    boto3: [
      `# ${FILE} is written by: ${samplesCommand}`,
      'import os',
      'import boto3',
      '',
      `with open("${FILE}", encoding="utf-8") as requests:`,
      '    request = requests.readline()',
      ...sending('request'),
    ].join('\n'),
  };
}

function sending(body: string): string[] {
  return [
    'sqs = boto3.client("sqs")',
    `sent = sqs.send_message(QueueUrl=os.environ["REQUEST_QUEUE"], MessageBody=${body})`,
    'print(sent["MessageId"])',
  ];
}

function tooLarge(samplesCommand: string): Senders {
  const why = '# More than a message of SQS holds';
  const submit = `npx batchscore submit ${FILE} --stack stack.json`;
  return {
    awsCli: [`${why}: submit puts it into the payload bucket.`, samplesCommand, submit].join('\n'),
    boto3: `${why}: see docs/message-format.md#large-bodies`,
  };
}

function quoteForShell(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

export function pythonOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(', ')}]`;
  if (isObject(value)) {
    const members = Object.entries(value).map(([key, member]) => `${pythonOf(key)}: ${pythonOf(member)}`);
    return `{${members.join(', ')}}`;
  }
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return Object.is(value, -0) ? '-0.0' : printable(JSON.stringify(value));
}
