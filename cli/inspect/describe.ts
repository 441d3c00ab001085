import { relative } from 'node:path';
import { isObject } from '../../lambda/core/json.ts';
import { printable } from '../printable.ts';
import { inColumns, wrapped } from './columns.ts';
import type { Answer, FailedRequest, Inspection, Opened, Sample, Value, Verdict } from './inspection.ts';
import { ONNX_DOMAIN } from './onnxFile.ts';
import type { Senders } from './senders.ts';

/** Characters of a request that a person is shown; a longer one is cut. */
export const MOST_SHOWN = 700;
const MOST_ANSWER = 500;

/**
 * What was found, for a terminal of so many columns. What is to be copied, requests and commands, is not wrapped.
 *
 * @param inspection what was found
 * @param senders of the first sample; undefined where there is none
 */
export function describe(inspection: Inspection, senders: Senders | undefined, width: number): string {
  const found = printableIn(inspection) as Inspection;
  const { opened } = found;
  const sections = [
    aboutModel(found, width),
    section('Inputs', valueTable(found.inputs, width)),
    section('Outputs', valueTable(found.outputs, width)),
    ...(found.notableOperators.length === 0 ? [] : [section('Operators that matter', operatorTable(found, width))]),
    ...(opened === undefined ? [] : opened.warnings.map((warning) => wrapped(`! ${warning}`, width).join('\n'))),
    ...(opened === undefined ? [] : requests({ ...opened, ...textsIn(inspection) }, senders, width)),
  ];
  return `${sections.join('\n\n')}\n`;
}

/** Requests, which are spelled to be copied. */
function textsIn({ opened }: Inspection): Pick<Opened, 'samples' | 'failed'> {
  return { samples: opened?.samples ?? [], failed: opened?.failed };
}

/** Whatever the file calls its inputs, operators and axes, all of it can be shown. */
function printableIn(value: unknown): unknown {
  if (typeof value === 'string') return printable(value);
  if (Array.isArray(value)) return value.map(printableIn);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [printable(name), printableIn(member)]));
}

function section(title: string, body: string): string {
  return `${title}\n${body.replace(/^(?=.)/gm, '  ')}`;
}

function aboutModel(found: Inspection, width: number): string {
  const { model, version, path, file, nodes, operators, opened } = found;
  const weights = file.weights.map(({ file: name, bytes }) => `, and ${size(bytes)} in ${name}`);
  const opsets = Object.entries(file.opsets).map(([domain, opset]) =>
    domain === ONNX_DOMAIN ? `${opset}` : `${domain} ${opset}`,
  );
  const rows: [string, string][] = [
    ['model', `${model}, version ${version}`],
    ['file', `${shortPath(path)}, ${size(file.bytes)}${weights.join('')}`],
    ['opset', `${opsets.join(', ')}${file.producer === undefined ? '' : `; exported by ${file.producer}`}`],
    ['operators', `${count(nodes)} nodes, of ${operators.length} operators`],
    ...(opened === undefined ? [] : aboutRows(opened, found.inputs)),
  ];
  return inColumns(rows, width);
}

function aboutRows(opened: Opened, inputs: readonly Value[]): [string, string][] {
  const { verdict, constants, hasTransform } = opened;
  return [
    ['rows', `${VERDICTS[verdict]}${evidence(opened)}`],
    ['runs', runs(opened, inputs)],
    ...(opened.samples.length === 0 ? [] : [['ran', ran(opened)] as [string, string]]),
    ['ragged', ragged(opened)],
    ...(constants.length === 0
      ? []
      : [['constants', `${constants.join(', ')}, given by config.json`] as [string, string]]),
    ...(opened.leftOut.length === 0
      ? []
      : [
          ['left out', `${opened.leftOut.join(', ')}, which "outputs" in config.json does not name`] as [
            string,
            string,
          ],
        ]),
    ...(hasTransform ? [['transform', 'takes requests of its own: docs/transforms.md'] as [string, string]] : []),
  ];
}

const VERDICTS: Readonly<Record<Verdict, string>> = {
  independent: 'independent of each other',
  trusted: 'share runs unchecked, as "batching": "trust" in config.json says',
  unknown: 'not known to be independent: requests run alone until they have proved it',
  dependent: 'depend on each other, so a run holds one request with all its rows',
  alone: 'a run holds one request with all its rows, as "batching": "alone" in config.json says',
};

function evidence({ verdict, probes, largestDifference }: Opened): string {
  if (verdict !== 'independent' || probes === 0) return '';
  const differed = largestDifference ? `differed by ${largestDifference.toExponential(0)} at most` : 'were the same';
  return ` (${probes} probes, alone and in company; their answers ${differed})`;
}

function runs({ maxBatchRows, ladder, verdict }: Opened, inputs: readonly Value[]): string {
  const [first] = inputs;
  const batch = first?.batchAxis === undefined ? undefined : first.shape?.[first.batchAxis];
  const fixed = typeof batch === 'number' && ladder.length === 1;
  if (fixed && batch > 1) return `of ${batch} rows each, a fixed batch: fewer are padded`;
  if (maxBatchRows === 1) return 'of 1 row';
  if (verdict === 'dependent' || verdict === 'alone') return `of 1 request of up to ${count(maxBatchRows)} rows`;
  if (verdict === 'unknown') return `of 1 request, and of up to ${count(maxBatchRows)} rows once that is proved`;
  return ladder.length > 0 ? `of ${ladder.map(count).join(', ')} rows` : `of up to ${count(maxBatchRows)} rows`;
}

/** What went in and came out. */
function ran({ samples, isMadeUp }: Opened): string {
  const [{ json, binary, answer }] = samples as [Sample];
  const origin = isMadeUp ? 'made up' : 'of samples.jsonl';
  const forms = binary === undefined ? 'as they are' : 'as JSON and in binary';
  const [sent, got] = [shapesIn(JSON.parse(json), 'inputs'), shapesIn(answer, 'outputs')];
  const first = sent === undefined || got === undefined ? '' : `; the first: ${sent} → ${got}`;
  return `${count(samples.length)} ${samples.length === 1 ? 'request' : 'requests'}, ${origin}, ${forms}${first}`;
}

/** The names and shapes of tensors in a request or an answer, where it is in the canonical form. */
function shapesIn(body: Answer, key: 'inputs' | 'outputs'): string | undefined {
  const tensors = body[key];
  if (!Array.isArray(tensors)) return undefined;
  return tensors.map(({ name, shape }) => `${printable(name)} [${shape.join(', ')}]`).join(', ');
}

function ragged({ ragged: axis, openAxes }: Opened): string {
  const open = openAxes.map((name) => `'${name}'`).join(', ');
  const others = open === '' ? '' : `${open} may have any size, and requests that share a run agree in it`;
  if (axis !== null) {
    const rungs = axis.ladder.length === 0 ? 'any length' : `lengths of ${axis.ladder.map(count).join(', ')}`;
    return `'${axis.axis}' of ${axis.inputs.join(', ')}: ${rungs}, padded within a run${others === '' ? '' : `; ${others}`}`;
  }
  if (open === '') return 'no: all requests have one shape';
  return `no: ${others}; to have it padded, see "ragged" in docs/models.md`;
}

function valueTable(values: readonly Value[], width: number): string {
  const rows = values.map(({ name, datatype, shape, batchAxis, raggedAxis }) => [
    name,
    datatype,
    shape === undefined ? 'unknown' : `[${shape.join(', ')}]`,
    [
      ...(batchAxis === undefined ? [] : [`batch axis ${batchAxis}`]),
      ...(raggedAxis === undefined ? [] : [`ragged axis ${raggedAxis}`]),
    ].join(', '),
  ]);
  return rows.length === 0 ? 'none' : inColumns([['name', 'datatype', 'shape', ''], ...rows], width - 2);
}

function operatorTable({ notableOperators }: Inspection, width: number): string {
  const rows = notableOperators.flatMap(({ names, count: uses, why }) => [
    [`${count(uses)} ×`, `${names.join(', ')}: ${why}`],
  ]);
  return inColumns(rows, width - 2);
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
    `Request (${origin})\n${cut(sample.json, MOST_SHOWN)}`,
    ...(sample.binary === undefined ? [] : [`The same in binary\n${cut(sample.binary, MOST_SHOWN)}`]),
    `Its answer\n${cut(answerText(sample), MOST_ANSWER)}`,
    `With the AWS CLI\n${senders.awsCli}`,
    `With boto3\n${senders.boto3}`,
    `${wrapped(WHERE, width).join('\n')}\n${LOCAL}`,
    ...ofFailed,
  ];
}

function aboutFailed({ place, json, reason }: FailedRequest, width: number): string[] {
  return [
    `Request (${place}, and not answered)\n${cut(json, MOST_SHOWN)}`,
    `Why it failed\n${wrapped(printable(reason), width).join('\n')}`,
  ];
}

const WHERE =
  'QUEUE_URL is requestQueueUrl of the first line of npm run dev, or of the stack.json that cdk deploy wrote. For ' +
  'npm run dev also:';
const LOCAL =
  'export QUEUE_URL=http://127.0.0.1:4566/000000000000/batchscore-requests AWS_ENDPOINT_URL=http://127.0.0.1:4566 ' +
  'AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local';

function answerText({ answer }: Sample): string {
  return printable(JSON.stringify(answer));
}

function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, most)}…\n(cut after ${count(most)} of ${count(text.length)} characters; --json has all of it, --samples FILE writes the requests)`;
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** From here, where it lies here. */
function shortPath(path: string): string {
  const fromHere = relative('', path);
  return fromHere.startsWith('..') ? path : fromHere;
}

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB'];

function size(bytes: number): string {
  let [value, unit] = [bytes, 0];
  for (; value >= 1024 && unit < UNITS.length - 1; unit++) value /= 1024;
  return unit === 0 ? `${bytes} bytes` : `${value.toFixed(1)} ${UNITS[unit]}`;
}
