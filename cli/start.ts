import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { Batchscore } from '../client/index.ts';
import { BATCH_SIZE } from '../lambda/core/limits.ts';
import { SILENT } from '../lambda/core/observer.ts';
import { parseOptions, runCommand, type Streams, wholeNumber } from './arguments.ts';
import { count, duration, figure, percent } from './format.ts';
import { type Batching, type LocalStack, startLocalStack } from './local/localStack.ts';
import { sayWhenInterrupted, writeLine } from './terminal.ts';

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
  const say = (...lines: readonly string[]): void => {
    for (const line of lines) writeLine(stdout, line);
  };
  const print = (name: string, text: string): void => say(`  ${name.padEnd(12)}${text}`);
  const messages = await demoMessages(wholeNumber('--messages', options.messages, 1, 1_000_000));
  const finished = sayWhenInterrupted('stopped; nothing is left running');
  const seen = { answered: 0, runs: 0, onAnswer: () => {} };
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
        microBatch() {
          seen.runs += 1;
        },
        problem: (error) => writeLine(stderr, String(error)),
      },
    },
    warn: (message) => writeLine(stderr, message),
  });
  try {
    say('Handwritten digits through SQS, the Lambda handler and ONNX Runtime, all on this machine', '');
    const batchSize = Math.min(BATCH_SIZE.max, Math.ceil(messages.length / BATCHES));
    const batched = await sendThrough(stack, messages, { batchSize, windowSeconds: 1 }, seen);
    const { answers, scored, errors } = batched;
    const right = scored.filter(({ isRight }) => isRight).length;
    const codes = [...Map.groupBy(errors, ({ code }) => code)].toSorted();
    print('messages', `${count(messages.length)} sent, ${count(answers)} answered under their message IDs`);
    print('scores', `${count(scored.length)}, ${percent(right / scored.length)} of the labels right`);
    print('errors', codes.map(([code, of]) => `${code} ${of.length}`).join(', '));
    print('in batches', batched.speed);
    const oneByOne = await sendThrough(stack, messages, { batchSize: 1, windowSeconds: 0 }, seen);
    print('one by one', oneByOne.speed);
    print('speed-up', `${figure(oneByOne.seconds / batched.seconds)}×`);
    say('', 'A request', `  ${scored[0]?.request}`);
    say('', 'Its result', `  ${JSON.stringify(scored[0]?.result)}`);
    say('', `A refused request: ${errors[0]?.code}`, `  ${errors[0]?.message}`);
    return [batched, oneByOne].every(({ answers }) => answers === messages.length) ? 0 : 1;
  } finally {
    await stack.stop();
    finished();
  }
}

type DemoMessage = Awaited<ReturnType<typeof demoMessages>>[number];

const DIGIT = z.object({ pixels: z.array(z.number()).length(64), label: z.number() });

/** Returns a dozen broken messages, and digits that are not in the training data, repeated if needed. */
async function demoMessages(many: number) {
  const lines = (await readFile(new URL('digits/held-out.jsonl', MODELS), 'utf8')).trimEnd().split('\n');
  const digits = z.tuple([DIGIT], DIGIT).parse(lines.map((line) => JSON.parse(line)));
  const bodyOf = (id: string, pixels: readonly unknown[], model = 'digits'): string =>
    JSON.stringify({ id, model_name: model, instances: [pixels] });
  const sound = Array.from({ length: many }, (_, index) => {
    const { label, pixels } = digits[index % digits.length] ?? digits[0];
    return { label, body: bodyOf(`digit-${index}`, pixels) };
  });
  const [{ pixels }] = digits;
  const [, ...others] = pixels;
  const broken = [
    bodyOf('not-a-number', ['seven', ...others]),
    bodyOf('too-few', others),
    bodyOf('unknown-model', pixels, 'letters'),
    'seven, I think',
  ];
  return [...[...broken, ...broken, ...broken].map((body) => ({ body, label: undefined })), ...sound];
}

const SCORED = z.object({ predictions: z.tuple([z.object({ label: z.number() })]) });
const PATIENCE_MS = 20_000;

/** Sends every message, and collects the answers after they are written. Pollers would slow down the measured work. */
async function sendThrough(
  { sqs, queues, startMapping }: LocalStack,
  messages: readonly DemoMessage[],
  batching: Batching,
  seen: { answered: number; runs: number; onAnswer: () => void },
) {
  Object.assign(seen, { answered: 0, runs: 0 });
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
    const results = await Array.fromAsync(client.collect(ids, { timeoutMs: PATIENCE_MS }));
    const scored = results.flatMap((result) => {
      const label = SCORED.safeParse(result).data?.predictions[0].label;
      const message = sent.get(result.messageId);
      return label === undefined ? [] : [{ request: message?.body, result, isRight: label === message?.label }];
    });
    const errors = results.flatMap((result) => ('error' in result ? [result.error] : []));
    const perSecond = count(messages.length / seconds);
    const speed = `${perSecond} messages/s, ${duration(1000 * seconds)} at batch size ${batching.batchSize}, model runs: ${count(seen.runs)}`;
    return { answers: results.length, scored, errors, seconds, speed };
  } finally {
    clearTimeout(patience);
    await client.close();
    await mapping.stop();
  }
}

if (import.meta.main) await runCommand(start, HELP);
