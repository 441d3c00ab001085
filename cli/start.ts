import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { styleText } from 'node:util';
import {
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { Batchscore } from '../client/batchscore.ts';
import { MAX_BATCH_ENTRIES } from '../lambda/aws/sendBatches.ts';
import type { Telemetry } from '../lambda/aws/telemetry.ts';
import { plural } from '../lambda/core/failure.ts';
import { parseIfJson } from '../lambda/core/json.ts';
import { BATCH_SIZE } from '../lambda/core/limits.ts';
import { MESSAGE_ID_ATTRIBUTE } from '../lambda/core/record.ts';
import { parseOptions, runCommand, type Streams, wholeNumber } from './arguments.ts';
import { type Batching, type LocalStack, startLocalStack } from './local/localStack.ts';
import { progressBar, sayWhenInterrupted, writeLine, writeText } from './terminal.ts';

const HELP = `Usage: npm start -- [options]

Sends handwritten digits through a local SQS server, the Lambda handler and the model, in
batches and then one message at a time, and shows what came back.

  --messages N      how many digits to send (default 2000); a dozen broken messages come on top
  --batch-size N    most messages of a batch (default: a quarter of all)
  --help            show this
`;

const MODELS = new URL('../models/', import.meta.url);
/** Batches that fill: one that does not waits out the window, which would be most of the time measured. */
const BATCHES = 4;

export async function start(args: readonly string[], { stdout, stderr }: Streams): Promise<number> {
  const options = parseOptions(args, {
    messages: { type: 'string', default: '2000' },
    'batch-size': { type: 'string' },
  });
  const messages = await demoMessages(wholeNumber('--messages', options.messages, 1, 1_000_000));
  const batchSize =
    options['batch-size'] === undefined
      ? Math.min(BATCH_SIZE.max, Math.ceil(messages.length / BATCHES))
      : wholeNumber('--batch-size', options['batch-size'], BATCH_SIZE.min, BATCH_SIZE.max);

  const finished = sayWhenInterrupted('stopped; nothing is left running');
  const telemetry = createTally((error) => writeLine(stderr, String(error)));
  const stack = await startLocalStack({
    port: 0,
    modelsDirectory: MODELS.pathname,
    defaultModel: 'digits',
    environment: process.env,
    telemetry,
    warn: (message) => writeLine(stderr, message),
  });
  try {
    const batched = await sendThrough(stack, messages, { batchSize, windowSeconds: 1 }, 'in batches');
    const runs = { ...telemetry.runs };
    const oneByOne = await sendThrough(stack, messages, { batchSize: 1, windowSeconds: 0 }, 'one by one');
    const report = { batched: check(messages, batched), oneByOne: check(messages, oneByOne), batchSize, runs };
    writeText(stdout, renderReport(messages, batched, report, stdout.columns));
    return [report.batched, report.oneByOne].every(isComplete) ? 0 : 1;
  } finally {
    await stack.stop();
    finished();
  }
}

interface DemoMessage {
  readonly body: string;
  /** What the result repeats; undefined in a body that cannot be read. */
  readonly id?: string;
  /** Of a digit: 8 rows of 8 values from 0 to 16, and what it is. */
  readonly digit?: { readonly pixels: readonly number[]; readonly label: number };
}

const DIGIT = z.object({ pixels: z.array(z.number()).length(64), label: z.number() });
const DIGITS = z.tuple([DIGIT], DIGIT);

/** Digits that the model has not seen in training, repeated as often as needed, with broken messages among them. */
async function demoMessages(count: number): Promise<DemoMessage[]> {
  const lines = (await readFile(new URL('digits/held-out.jsonl', MODELS), 'utf8')).trimEnd().split('\n');
  const digits = DIGITS.parse(lines.map((line) => JSON.parse(line)));
  const messages = Array.from({ length: count }, (_, index): DemoMessage => {
    const digit = digits[index % digits.length] ?? digits[0];
    const id = `digit-${index}`;
    return { id, digit, body: requestOf(id, digit.pixels) };
  });
  const broken = brokenMessages(digits[0].pixels);
  for (const [index, message] of broken.entries()) {
    messages.splice(Math.floor((index * (count + broken.length)) / broken.length), 0, message);
  }
  return messages;
}

/** A dozen, of four kinds. */
function brokenMessages(pixels: readonly number[]): DemoMessage[] {
  const kinds = [
    { id: 'not-a-number', body: requestOf('not-a-number', ['seven', ...pixels.slice(1)]) },
    { id: 'too-few', body: requestOf('too-few', pixels.slice(1)) },
    { id: 'unknown-model', body: requestOf('unknown-model', pixels, 'letters') },
    { body: 'seven, I think' },
  ];
  return [...kinds, ...kinds, ...kinds];
}

function requestOf(id: string, pixels: readonly unknown[], model = 'digits'): string {
  return JSON.stringify({ id, model_name: model, instances: [pixels] });
}

/** Telemetry that counts the runs in place of sending anything anywhere. */
function createTally(
  problem: (error: unknown) => void,
): Telemetry & { readonly runs: { count: number; rows: number } } {
  const runs = { count: 0, rows: 0 };
  return {
    runs,
    middlewares: [],
    outcomes: () => {},
    observer: {
      microBatch({ rows }) {
        runs.count += 1;
        runs.rows += rows;
      },
      decoded: () => {},
      checked: () => {},
      batchMismatch: () => {},
      written: () => {},
      problem,
    },
  };
}

/** What was sent and what came back. Times are milliseconds since 1970. */
interface Pass {
  readonly sent: ReadonlyMap<string, DemoMessage>;
  readonly results: readonly { readonly messageId: string | undefined; readonly body: string }[];
  /** From the first request sent to the last result written. */
  readonly seconds: number;
}

/** Results that do not come within this time after the last one are missing. */
const PATIENCE_MS = 20_000;
const LOOK_EVERY_MS = 20;

/** Sends every message, and receives the results once as many are written or no more come. */
async function sendThrough(
  { sqs, queues, startMapping }: LocalStack,
  messages: readonly DemoMessage[],
  batching: Batching,
  title: string,
): Promise<Pass> {
  // A single invocation at a time: two would each leave a batch to wait out the window.
  const mapping = startMapping({ ...batching, maximumConcurrency: 1 });
  const bar = progressBar(title, messages.length, 'count');
  const startedAt = Date.now();
  try {
    const waiting = untilWritten(sqs, queues.resultQueueUrl, messages.length, (written) => bar.update(written));
    const client = new Batchscore({ sqs, region: queues.region, requestQueueUrl: queues.requestQueueUrl });
    const [ids] = await Promise.all([client.submit(messages.map(({ body }) => ({ body }))), waiting]);
    const sent = new Map(ids.map((id, index) => [id, messages[index] as DemoMessage]));
    await mapping.stop();
    const { results, lastWrittenAt } = await receiveAll(sqs, queues.resultQueueUrl);
    return { sent, results, seconds: Math.max(1, lastWrittenAt - startedAt) / 1000 };
  } finally {
    bar.stop();
    await mapping.stop();
  }
}

async function untilWritten(
  sqs: SQSClient,
  QueueUrl: string,
  expected: number,
  onProgress: (results: number) => void,
): Promise<void> {
  let written = 0;
  let changedAt = performance.now();
  while (written < expected && performance.now() - changedAt < PATIENCE_MS) {
    await sleep(LOOK_EVERY_MS);
    const { Attributes = {} } = await sqs.send(
      new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['ApproximateNumberOfMessages'] }),
    );
    const now = Number(Attributes.ApproximateNumberOfMessages);
    if (now === written) continue;
    written = now;
    changedAt = performance.now();
    onProgress(written);
  }
}

/** Takes every result off the queue: more than were asked for, where some came twice. */
async function receiveAll(sqs: SQSClient, QueueUrl: string) {
  const results: Pass['results'][number][] = [];
  let lastWrittenAt = 0;
  for (;;) {
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl,
        MaxNumberOfMessages: MAX_BATCH_ENTRIES,
        MessageAttributeNames: [MESSAGE_ID_ATTRIBUTE],
        MessageSystemAttributeNames: ['SentTimestamp'],
      }),
    );
    if (Messages.length === 0) return { results, lastWrittenAt };
    for (const { Body = '', Attributes, MessageAttributes } of Messages) {
      results.push({ messageId: MessageAttributes?.[MESSAGE_ID_ATTRIBUTE]?.StringValue, body: Body });
      lastWrittenAt = Math.max(lastWrittenAt, Number(Attributes?.SentTimestamp));
    }
    const Entries = Messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }));
    await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
  }
}

const RESULT = z.object({
  message_id: z.string(),
  id: z.string().optional(),
  code: z.string().optional(),
  error: z.string().optional(),
  predictions: z.tuple([z.object({ label: z.number(), probabilities: z.array(z.number()) })]).optional(),
});

/** A pass, checked message by message against what was sent. */
interface Checked {
  readonly answered: number;
  readonly missing: number;
  readonly duplicates: number;
  /** Results under an ID that was not sent, or that answer another request than the one sent under it. */
  readonly wrongId: number;
  /** Digits whose label was right. */
  readonly right: number;
  /** Error results by code. */
  readonly errors: ReadonlyMap<string, number>;
  readonly seconds: number;
}

export function check({ length }: { readonly length: number }, { sent, results, seconds }: Pass): Checked {
  const seen = new Set<string>();
  const errors = new Map<string, number>();
  const counts = { duplicates: 0, wrongId: 0, right: 0 };
  for (const { messageId = '', body } of results) {
    const message = sent.get(messageId);
    const { data: result } = RESULT.safeParse(parseIfJson(body));
    if (message === undefined || result?.message_id !== messageId || result.id !== message.id) {
      counts.wrongId += 1;
    } else if (seen.has(messageId)) {
      counts.duplicates += 1;
    } else {
      seen.add(messageId);
      if (result.code !== undefined) errors.set(result.code, (errors.get(result.code) ?? 0) + 1);
      if (message.digit !== undefined && result.predictions?.[0].label === message.digit.label) counts.right += 1;
    }
  }
  return { answered: seen.size, missing: length - seen.size, ...counts, errors, seconds };
}

function isComplete({ missing, duplicates, wrongId }: Checked): boolean {
  return missing + duplicates + wrongId === 0;
}

interface Report {
  readonly batched: Checked;
  readonly oneByOne: Checked;
  readonly batchSize: number;
  /** Of the model, in batches. */
  readonly runs: { readonly count: number; readonly rows: number };
}

const MAX_DIGITS = 3;

/** What came back as a person reads it: some of it, and the figures. @param columns of the terminal, if it is one */
function renderReport(messages: readonly DemoMessage[], pass: Pass, report: Report, columns?: number): string {
  const digits = new Map<number, ScoredDigit>();
  const cut = (text: string) =>
    columns === undefined || text.length + 2 < columns ? text : `${text.slice(0, columns - 4)}…`;
  let answered: { request: string; result: string } | undefined;
  let refused: { code: string; error: string } | undefined;
  for (const { messageId = '', body } of pass.results) {
    const { id, code, error, predictions } = RESULT.safeParse(parseIfJson(body)).data ?? {};
    const { digit, body: request = '' } = pass.sent.get(messageId) ?? {};
    if (code !== undefined && error !== undefined && id !== undefined) refused ??= { code, error };
    if (predictions === undefined || digit === undefined) continue;
    answered ??= { request, result: body };
    const [{ label, probabilities }] = predictions;
    if (digits.size < MAX_DIGITS && !digits.has(label)) {
      digits.set(label, { pixels: digit.pixels, label, probability: probabilities[label] ?? 0 });
    }
  }
  return [
    '',
    bold('Handwritten digits through SQS, the Lambda handler and ONNX Runtime, all on this machine'),
    '',
    ...drawDigits([...digits.values()], columns),
    '',
    ...rowsOf(messages, report).map(([label, text]) => `  ${label.padEnd(16)} ${text}`),
    ...(answered === undefined
      ? []
      : ['', bold('A request'), `  ${cut(answered.request)}`, bold('Its result'), `  ${cut(answered.result)}`]),
    ...(refused === undefined ? [] : ['', bold(`A refused request: ${refused.code}`), `  ${refused.error}`]),
    '',
  ].join('\n');
}

function rowsOf(messages: readonly DemoMessage[], { batched, oneByOne, batchSize, runs }: Report): [string, string][] {
  const digits = messages.filter(({ digit }) => digit !== undefined).length;
  const errors = [...batched.errors].toSorted();
  const many = errors.reduce((sum, [, times]) => sum + times, 0);
  const speedOf = ({ seconds }: Checked) => `${number(messages.length / seconds)} messages/s, ${seconds.toFixed(2)} s`;
  const { missing, duplicates, wrongId } = batched;
  return [
    ['messages', `${number(messages.length)} sent, ${number(batched.answered)} answered under their message IDs`],
    ['', `${missing} missing, ${duplicates} duplicated, ${wrongId} under a wrong ID`],
    [
      'scores',
      `${number(batched.answered - many)}, ${((100 * batched.right) / digits).toFixed(1)} % of the labels right`,
    ],
    ['errors', errors.map(([code, times]) => `${code} ${times}`).join(', ')],
    ['in batches', `${speedOf(batched)} at batch size ${batchSize}`],
    ['', `the model ran ${plural(runs.count, 'time')}, with ${(runs.rows / runs.count).toFixed(1)} rows on average`],
    ['one by one', `${speedOf(oneByOne)} at batch size 1`],
    ['speed-up', `${(oneByOne.seconds / batched.seconds).toFixed(1)}×`],
  ];
}

/** Plain where stdout is no terminal, or NO_COLOR is set. */
function bold(text: string): string {
  return styleText('bold', text, { stream: process.stdout });
}

function number(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

interface ScoredDigit {
  /** 8 rows of 8 values from 0 to 16. */
  readonly pixels: readonly number[];
  readonly label: number;
  readonly probability: number;
}

const SIDE = 8;
const DARKEST = 16;
const SHADES = [' ', '░', '▒', '▓', '█'];
const CELL_COLUMNS = 20;

/** Digits side by side above their labels, as many as fit. Two letters make a pixel, as one is half as wide as high. */
export function drawDigits(digits: readonly ScoredDigit[], columns = Number.POSITIVE_INFINITY): string[] {
  const shown = digits.slice(0, Math.max(1, Math.floor(columns / CELL_COLUMNS)));
  const shadeOf = (pixel: number) => SHADES[Math.round((pixel / DARKEST) * (SHADES.length - 1))] ?? ' ';
  const rows = Array.from({ length: SIDE }, (_, row) =>
    shown.map(({ pixels }) =>
      pixels
        .slice(row * SIDE, (row + 1) * SIDE)
        .map((pixel) => shadeOf(pixel).repeat(2))
        .join(''),
    ),
  );
  const captions = shown.map(({ label, probability }) => `${label}, ${(100 * probability).toFixed(1)} %`);
  return [...rows, captions].map((cells) => `  ${cells.map((cell) => cell.padEnd(CELL_COLUMNS)).join('')}`.trimEnd());
}

if (import.meta.main) await runCommand(start, HELP);
