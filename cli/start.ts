import { readFile } from 'node:fs/promises';
import { styleText } from 'node:util';
import * as z from 'zod';
import { Batchscore, type ScoringResult } from '../client/index.ts';
import { plural } from '../lambda/core/failure.ts';
import { BATCH_SIZE } from '../lambda/core/limits.ts';
import { SILENT } from '../lambda/core/observer.ts';
import { parseOptions, runCommand, type Streams, wholeNumber } from './arguments.ts';
import { count, duration, figure, percent } from './format.ts';
import { type Batching, type LocalStack, startLocalStack } from './local/localStack.ts';
import { inColumns, sayWhenInterrupted, writeLine, writeText } from './terminal.ts';

const HELP = `Usage: npm start -- [options]

Sends handwritten digits through a local SQS server, the Lambda handler and the model, in
batches and then one message at a time, and shows what came back.

  --messages N      how many digits to send (default 2000); a dozen broken messages come on top
  --help            show this
`;

const MODELS = new URL('../models/', import.meta.url);
/** Number of batches. Each is full, because a partial batch would wait for the window. */
const BATCHES = 4;

export async function start(args: readonly string[], { stdout, stderr }: Streams): Promise<number> {
  const options = parseOptions(args, { messages: { type: 'string', default: '2000' } });
  const messages = await demoMessages(wholeNumber('--messages', options.messages, 1, 1_000_000));
  const finished = sayWhenInterrupted('stopped; nothing is left running');
  const seen = { answered: 0, runs: 0, rows: 0, onAnswer: () => {} };
  const stack = await startLocalStack({
    port: 0,
    modelsDirectory: MODELS.pathname,
    defaultModel: 'digits',
    environment: process.env,
    telemetry: {
      middlewares: [],
      outcomes(outcomes) {
        seen.answered += outcomes.filter(({ status }) => status === 'answered').length;
        seen.onAnswer();
      },
      observer: {
        ...SILENT,
        microBatch({ rows }) {
          seen.runs += 1;
          seen.rows += rows;
        },
        problem: (error) => writeLine(stderr, String(error)),
      },
    },
    warn: (message) => writeLine(stderr, message),
  });
  const pass = (batching: Batching) => sendThrough(stack, messages, batching, seen);
  try {
    const batchSize = Math.min(BATCH_SIZE.max, Math.ceil(messages.length / BATCHES));
    const batched = await pass({ batchSize, windowSeconds: 1 });
    const oneByOne = await pass({ batchSize: 1, windowSeconds: 0 });
    writeText(stdout, render(messages.length, batched, oneByOne, stdout.columns));
    return [batched, oneByOne].every(({ answers }) => answers.length === messages.length) ? 0 : 1;
  } finally {
    await stack.stop();
    finished();
  }
}

interface DemoMessage {
  readonly body: string;
  readonly label?: number;
}

const DIGIT = z.object({ pixels: z.array(z.number()).length(64), label: z.number() });

/** Returns digits that are not in the training data, repeated if needed, with a dozen broken messages among them. */
async function demoMessages(many: number): Promise<DemoMessage[]> {
  const lines = (await readFile(new URL('digits/held-out.jsonl', MODELS), 'utf8')).trimEnd().split('\n');
  const digits = z.tuple([DIGIT], DIGIT).parse(lines.map((line) => JSON.parse(line)));
  const bodyOf = (id: string, pixels: readonly unknown[], model = 'digits'): string =>
    JSON.stringify({ id, model_name: model, instances: [pixels] });
  const messages = Array.from({ length: many }, (_, index): DemoMessage => {
    const digit = digits[index % digits.length] ?? digits[0];
    return { label: digit.label, body: bodyOf(`digit-${index}`, digit.pixels) };
  });
  const [{ pixels }] = digits;
  const [, ...others] = pixels;
  const broken = [
    bodyOf('not-a-number', ['seven', ...others]),
    bodyOf('too-few', others),
    bodyOf('unknown-model', pixels, 'letters'),
    'seven, I think',
  ];
  for (const [index, body] of [...broken, ...broken, ...broken].entries()) {
    messages.splice(Math.floor((index * (many + 12)) / 12), 0, { body });
  }
  return messages;
}

type Pass = Awaited<ReturnType<typeof sendThrough>>;

const PATIENCE_MS = 20_000;

/** Sends every message, and collects the answers after they are written. Pollers would slow down the measured work. */
async function sendThrough(
  { sqs, queues, startMapping }: LocalStack,
  messages: readonly DemoMessage[],
  batching: Batching,
  seen: { answered: number; runs: number; rows: number; onAnswer: () => void },
) {
  Object.assign(seen, { answered: 0, runs: 0, rows: 0 });
  // With two concurrent invocations, each would leave a partial batch that waits for the window.
  const mapping = startMapping({ ...batching, maximumConcurrency: 1 });
  const { promise: written, resolve } = Promise.withResolvers<void>();
  const patience = setTimeout(resolve, PATIENCE_MS);
  seen.onAnswer = () => {
    patience.refresh();
    if (seen.answered >= messages.length) resolve();
  };
  const { region, requestQueueUrl, resultQueueUrl } = queues;
  const client = new Batchscore({ sqs, region, requestQueueUrl, resultQueueUrl });
  const startedAt = performance.now();
  try {
    const [ids] = await Promise.all([client.submit(messages.map(({ body }) => ({ body }))), written]);
    /** Time from the first request sent to the last result written. */
    const seconds = (performance.now() - startedAt) / 1000;
    const sent = new Map(ids.map((id, index) => [id, messages[index]]));
    const answers: { message: DemoMessage | undefined; result: ScoringResult }[] = [];
    for await (const result of client.collect(ids, { timeoutMs: PATIENCE_MS })) {
      answers.push({ message: sent.get(result.messageId), result });
    }
    return { ...batching, ...seen, answers, seconds };
  } finally {
    clearTimeout(patience);
    await client.close();
    await mapping.stop();
  }
}

const SCORED = z.object({
  predictions: z.tuple([z.object({ label: z.number(), probabilities: z.array(z.number()) })]),
});

function render(sent: number, batched: Pass, oneByOne: Pass, columns = Number.POSITIVE_INFINITY): string {
  const { answers } = batched;
  const digits = answers.flatMap(({ message, result }) => {
    const got = SCORED.safeParse(result).data?.predictions[0];
    return got === undefined || message === undefined ? [] : [{ ...message, result, got }];
  });
  const right = digits.filter(({ label, got }) => got.label === label).length;
  const errors = answers.flatMap(({ result }) => ('error' in result ? [result.error] : []));
  const codes = [...Map.groupBy(errors, ({ code }) => code)].toSorted().map(([code, of]) => `${code} ${of.length}`);
  const speed = ({ seconds, batchSize }: Pass): string =>
    `${count(sent / seconds)} messages/s, ${duration(1000 * seconds)} at batch size ${batchSize}`;
  const facts = [
    ['messages', `${count(sent)} sent, ${count(answers.length)} answered under their message IDs`],
    ['scores', `${count(digits.length)}, ${percent(right / digits.length)} of the labels right`],
    ['errors', codes.join(', ')],
    ['in batches', speed(batched)],
    ['', `the model ran ${plural(batched.runs, 'time')}, with ${figure(batched.rows / batched.runs)} rows on average`],
    ['one by one', speed(oneByOne)],
    ['speed-up', `${figure(oneByOne.seconds / batched.seconds)}×`],
  ];
  const cut = (text: string): string => (text.length + 2 < columns ? text : `${text.slice(0, columns - 4)}…`);
  const bold = (text: string): string => styleText('bold', text, { stream: process.stdout });
  const [first] = digits;
  const [refused] = errors;
  return [
    '',
    bold('Handwritten digits through SQS, the Lambda handler and ONNX Runtime, all on this machine'),
    '',
    inColumns(facts).replace(/^(?=.)/gm, '  '),
    ...(first
      ? ['', bold('A request'), `  ${cut(first.body)}`, bold('Its result'), `  ${cut(JSON.stringify(first.result))}`]
      : []),
    ...(refused ? ['', bold(`A refused request: ${refused.code}`), `  ${refused.message}`] : []),
    '',
  ].join('\n');
}

if (import.meta.main) await runCommand(start, HELP);
