import { BATCH_SIZE } from '../lambda/limits/eventSourceMapping.ts';
import { parseOptions, runCommand, wholeNumber } from './arguments.ts';
import { progressBar } from './bar.ts';
import { assess, secondsOf } from './demo/assess.ts';
import { exchange, type Received, type Sent, takeResults } from './demo/exchange.ts';
import { type DemoMessage, demoMessages } from './demo/messages.ts';
import { type DemoReport, renderReport } from './demo/report.ts';
import { createTally } from './demo/tally.ts';
import { type Batching, type LocalStack, startLocalStack } from './local/stack.ts';

const HELP = `Usage: npm start -- [options]

Sends handwritten digits through a local SQS server, the Lambda handler and the model,
first in batches, then one message at a time, and shows what came back.

  --messages N   how many digits to send (default 2000); a dozen broken messages come on top
  --json         print one JSON object instead of the table
  --help         show this
`;

const MODELS = new URL('../models/', import.meta.url);
/** A batch that does not fill waits out the window: these fill. */
const INVOCATIONS = 4;
const ONE_BY_ONE: Batching = { batchSize: 1, windowSeconds: 0 };

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args, {
    messages: { type: 'string', default: '2000' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  });
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const count = wholeNumber('--messages', options.messages, 1, 1_000_000);
  const messages = await demoMessages(new URL('digits/held-out.jsonl', MODELS), count);
  const report = await measure(messages);
  process.stdout.write(options.json ? `${JSON.stringify(report.figures)}\n` : renderReport(report));
  const { missing, duplicates, wrongId } = report.figures;
  return missing + duplicates + wrongId === 0 ? 0 : 1;
}

async function measure(messages: readonly DemoMessage[]): Promise<DemoReport> {
  const warn = (message: string): void => void process.stderr.write(`${message}\n`);
  const tally = createTally((error) => warn(String(error)));
  const stack = await startLocalStack({
    port: 0,
    modelsDirectory: MODELS.pathname,
    defaultModel: 'digits',
    environment: process.env,
    telemetry: tally,
    warn,
  });
  try {
    const batchSize = Math.min(BATCH_SIZE.most, Math.ceil(messages.length / INVOCATIONS));
    const batched = await sendThrough(stack, messages, { batchSize, windowSeconds: 1 }, 'in batches');
    const tallied = tally.take();
    const oneByOne = await sendThrough(stack, messages, ONE_BY_ONE, 'one by one');
    const { p50Ms, p99Ms, ...checked } = assess(messages, batched.sent, batched.received);
    const seconds = secondsOf(batched.sent, batched.received);
    const oneByOneSeconds = secondsOf(oneByOne.sent, oneByOne.received);
    return {
      batchSize,
      results: batched.received.map(({ body }) => body),
      figures: {
        messages: messages.length,
        ...checked,
        ...tallied,
        seconds,
        oneByOneSeconds,
        speedup: oneByOneSeconds / seconds,
        p50Ms,
        p99Ms,
      },
    };
  } finally {
    await stack.stop();
  }
}

async function sendThrough(
  stack: LocalStack,
  messages: readonly DemoMessage[],
  batching: Batching,
  title: string,
): Promise<{ sent: readonly Sent[]; received: readonly Received[] }> {
  const mapping = stack.startMapping(batching);
  const bar = progressBar(title, messages.length, 'count');
  let sent: Sent[];
  try {
    const bodies = messages.map(({ body }) => body);
    sent = await exchange(stack.sqs, stack.queues, bodies, (results) => bar.update(results));
  } finally {
    bar.stop();
    await mapping.stop();
  }
  return { sent, received: await takeResults(stack.sqs, stack.queues.resultQueueUrl) };
}

await runCommand(main);
