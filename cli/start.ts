import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { styleText } from 'node:util';
import { GetQueueAttributesCommand, type SQSClient } from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { Batchscore, type ScoringResult } from '../client/index.ts';
import { plural } from '../lambda/core/failure.ts';
import { BATCH_SIZE } from '../lambda/core/limits.ts';
import { parseOptions, runCommand, type Streams, wholeNumber } from './arguments.ts';
import { count, duration, figure, percent } from './format.ts';
import { type Batching, type LocalStack, startLocalStack } from './local/localStack.ts';
import { inColumns, progressBar, sayWhenInterrupted, writeLine, writeText } from './terminal.ts';

const HELP = `Usage: npm start -- [options]

Sends handwritten digits through a local SQS server, the Lambda handler and the model, in
batches and then one message at a time, and shows what came back.

  --messages N      how many digits to send (default 2000); a dozen broken messages come on top
  --batch-size N    most messages of a batch (default: a quarter of all)
  --help            show this
`;

const MODELS = new URL('../models/', import.meta.url);
/**
 * Number of batches. Each is full, because a partial batch would wait for the window, which would dominate the measured
 * time.
 */
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
  const runs = { count: 0, rows: 0 };
  const silent = { decoded() {}, checked() {}, batchMismatch() {}, written() {} };
  const problem = (error: unknown): void => writeLine(stderr, String(error));
  const microBatch = ({ rows }: { readonly rows: number }): void => {
    runs.count += 1;
    runs.rows += rows;
  };
  const stack = await startLocalStack({
    port: 0,
    modelsDirectory: MODELS.pathname,
    defaultModel: 'digits',
    environment: process.env,
    telemetry: { middlewares: [], outcomes() {}, observer: { ...silent, microBatch, problem } },
    warn: (message) => writeLine(stderr, message),
  });
  try {
    const batched = await sendThrough(stack, messages, { batchSize, windowSeconds: 1 }, 'in batches');
    const many = { ...runs };
    const oneByOne = await sendThrough(stack, messages, { batchSize: 1, windowSeconds: 0 }, 'one by one');
    writeText(stdout, render(messages, batched, oneByOne, batchSize, many, stdout.columns));
    return [batched, oneByOne].every(({ answers }) => answers.length === messages.length) ? 0 : 1;
  } finally {
    await stack.stop();
    finished();
  }
}

interface DemoMessage {
  readonly body: string;
  /** Digit: 8 rows of 8 values from 0 to 16, and its label. */
  readonly digit?: { readonly pixels: readonly number[]; readonly label: number };
}

const DIGIT = z.object({ pixels: z.array(z.number()).length(64), label: z.number() });

/**
 * Returns digits that are not in the model's training data, repeated as often as needed, with a dozen broken messages
 * among them.
 */
async function demoMessages(many: number): Promise<DemoMessage[]> {
  const lines = (await readFile(new URL('digits/held-out.jsonl', MODELS), 'utf8')).trimEnd().split('\n');
  const digits = z.tuple([DIGIT], DIGIT).parse(lines.map((line) => JSON.parse(line)));
  const bodyOf = (id: string, pixels: readonly unknown[], model = 'digits'): string =>
    JSON.stringify({ id, model_name: model, instances: [pixels] });
  const messages = Array.from({ length: many }, (_, index): DemoMessage => {
    const digit = digits[index % digits.length] ?? digits[0];
    return { digit, body: bodyOf(`digit-${index}`, digit.pixels) };
  });
  const [{ pixels }] = digits;
  const broken = [
    bodyOf('not-a-number', ['seven', ...pixels.slice(1)]),
    bodyOf('too-few', pixels.slice(1)),
    bodyOf('unknown-model', pixels, 'letters'),
    'seven, I think',
  ];
  for (const [index, body] of [...broken, ...broken, ...broken].entries()) {
    messages.splice(Math.floor((index * (many + 12)) / 12), 0, { body });
  }
  return messages;
}

interface Answer {
  readonly message: DemoMessage;
  readonly result: ScoringResult;
}

interface Pass {
  readonly answers: readonly Answer[];
  /** Time from the first request sent to the last result written. */
  readonly seconds: number;
}

const PATIENCE_MS = 20_000;
const LOOK_EVERY_MS = 20;

/** Sends every message, and collects the answers after they are written. Pollers would slow down the measured work. */
async function sendThrough(
  { sqs, queues, startMapping }: LocalStack,
  messages: readonly DemoMessage[],
  batching: Batching,
  title: string,
): Promise<Pass> {
  // With two concurrent invocations, each would leave a partial batch that waits for the window.
  const mapping = startMapping({ ...batching, maximumConcurrency: 1 });
  const bar = progressBar(title, messages.length, 'count');
  const { region, requestQueueUrl, resultQueueUrl } = queues;
  const client = new Batchscore({ sqs, region, requestQueueUrl, resultQueueUrl });
  const startedAt = performance.now();
  const answers: Answer[] = [];
  try {
    const [ids] = await Promise.all([
      client.submit(messages.map(({ body }) => ({ body }))),
      untilWritten(sqs, resultQueueUrl, messages.length, (written) => bar.update(written)),
    ]);
    const seconds = (performance.now() - startedAt) / 1000;
    const sent = new Map(ids.map((id, index) => [id, messages[index] as DemoMessage]));
    for await (const result of client.collect(ids, { timeoutMs: PATIENCE_MS })) {
      const message = sent.get(result.messageId);
      if (message !== undefined) answers.push({ message, result });
    }
    return { answers, seconds };
  } finally {
    bar.stop();
    await client.close();
    await mapping.stop();
  }
}

/** Waits until `expected` results are written, or no more arrive. */
async function untilWritten(
  sqs: SQSClient,
  QueueUrl: string,
  expected: number,
  onProgress: (written: number) => void,
): Promise<void> {
  const look = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['ApproximateNumberOfMessages'] });
  let changedAt = performance.now();
  for (let written = 0; written < expected && performance.now() - changedAt < PATIENCE_MS; ) {
    await sleep(LOOK_EVERY_MS);
    const now = Number((await sqs.send(look)).Attributes?.ApproximateNumberOfMessages);
    if (now !== written) changedAt = performance.now();
    written = now;
    onProgress(written);
  }
}

const SCORED = z.object({
  predictions: z.tuple([z.object({ label: z.number(), probabilities: z.array(z.number()) })]),
});

function render(
  messages: readonly DemoMessage[],
  batched: Pass,
  oneByOne: Pass,
  batchSize: number,
  runs: { readonly count: number; readonly rows: number },
  columns = Number.POSITIVE_INFINITY,
): string {
  const digits = batched.answers.flatMap(({ message, result }) => {
    const { data } = SCORED.safeParse(result);
    return data === undefined || message.digit === undefined
      ? []
      : [{ ...message, result, ...message.digit, got: data.predictions[0] }];
  });
  const right = digits.filter(({ label, got }) => got.label === label).length;
  const errors = batched.answers.flatMap(({ result }) => ('error' in result ? [result.error] : []));
  const codes = Map.groupBy(errors, ({ code }) => code);
  const speed = ({ seconds }: Pass): string =>
    `${count(messages.length / seconds)} messages/s, ${duration(1000 * seconds)}`;
  const cut = (text: string): string => (text.length + 2 < columns ? text : `${text.slice(0, columns - 4)}…`);
  const [first] = digits;
  const [refused] = errors;
  const facts = [
    ['messages', `${count(messages.length)} sent, ${count(batched.answers.length)} answered under their message IDs`],
    ['scores', `${count(digits.length)}, ${percent(right / digits.length)} of the labels right`],
    [
      'errors',
      [...codes]
        .toSorted()
        .map(([code, of]) => `${code} ${of.length}`)
        .join(', '),
    ],
    ['in batches', `${speed(batched)} at batch size ${batchSize}`],
    ['', `the model ran ${plural(runs.count, 'time')}, with ${figure(runs.rows / runs.count)} rows on average`],
    ['one by one', `${speed(oneByOne)} at batch size 1`],
    ['speed-up', `${figure(oneByOne.seconds / batched.seconds)}×`],
  ];
  const shown = [...new Map(digits.map((digit) => [digit.got.label, digit])).values()];
  return [
    '',
    bold('Handwritten digits through SQS, the Lambda handler and ONNX Runtime, all on this machine'),
    '',
    ...drawDigits(
      shown.map(({ pixels, got: { label, probabilities } }) => ({
        pixels,
        label,
        probability: probabilities[label] ?? 0,
      })),
      columns,
    ),
    '',
    inColumns(facts).replace(/^(?=.)/gm, '  '),
    ...(first
      ? ['', bold('A request'), `  ${cut(first.body)}`, bold('Its result'), `  ${cut(JSON.stringify(first.result))}`]
      : []),
    ...(refused ? ['', bold(`A refused request: ${refused.code}`), `  ${refused.message}`] : []),
    '',
  ].join('\n');
}

/** Formats text in bold, or as plain text if stdout is not a terminal or NO_COLOR is set. */
function bold(text: string): string {
  return styleText('bold', text, { stream: process.stdout });
}

interface ScoredDigit {
  /** 8 rows of 8 values from 0 to 16. */
  readonly pixels: readonly number[];
  readonly label: number;
  readonly probability: number;
}

const SHADES = [' ', '░', '▒', '▓', '█'];
const CELL_COLUMNS = 20;

/**
 * Draws three digits next to each other above their labels, or fewer if the terminal is narrow. A pixel is two
 * characters wide, because a character is half as wide as high.
 */
function drawDigits(digits: readonly ScoredDigit[], columns: number): string[] {
  const shown = digits.slice(0, Math.min(3, Math.max(1, Math.floor(columns / CELL_COLUMNS))));
  const row = (pixels: readonly number[], at: number): string =>
    pixels
      .slice(8 * at, 8 * at + 8)
      .map((pixel) => (SHADES[Math.round(pixel / 4)] ?? ' ').repeat(2))
      .join('');
  const rows = Array.from({ length: 8 }, (_, at) => shown.map(({ pixels }) => row(pixels, at)));
  const captions = shown.map(({ label, probability }) => `${label}, ${percent(probability)}`);
  return [...rows, captions].map((cells) => `  ${cells.map((cell) => cell.padEnd(CELL_COLUMNS)).join('')}`.trimEnd());
}

if (import.meta.main) await runCommand(start, HELP);
