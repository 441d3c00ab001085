import { BATCH_SIZE, FILL, WINDOW_SECONDS } from '../lambda/core/limits.ts';
import { CONFIG_KEYS } from '../lambda/settings.ts';
import { parseOptions, runCommand, type Streams, UsageError, wholeNumber } from './arguments.ts';
import {
  assess,
  createTally,
  type DemoMessage,
  type DemoTally,
  demoMessages,
  dollarsPerMillionRows,
  samplesOf,
  secondsOf,
} from './demo/assess.ts';
import { type DemoReport, renderReport } from './demo/demoReport.ts';
import { exchange, type Received, type Sent, takeResults, type Written, watchResults } from './demo/exchange.ts';
import type { InvocationReport } from './local/localMapping.ts';
import { type Batching, type LocalStack, MAXIMUM_CONCURRENCY, startLocalStack } from './local/localStack.ts';

import { poissonArrivals } from './profile/settings/simulate.ts';
import { progressBar } from './terminal.ts';

const HELP = `Usage: npm start -- [options]

Sends handwritten digits through a local SQS server, the Lambda handler and the model,
in batches, in batches with results that share messages, and one message at a time, and
shows what came back.

  --messages N      how many digits to send (default 2000); a dozen broken messages come on top
  --batch-size N    most messages of a batch (default: a quarter of all)
  --window S        longest wait for a batch to fill, in seconds (default 1)
  --arrival-rate N  messages a second, at random (default: as fast as the queue takes them)
  --json            print one JSON object instead of the table
  --help            show this
`;

const MODELS = new URL('../models/', import.meta.url);
/** A batch that does not fill waits out the window: these fill. */
const INVOCATIONS = 4;
const ONE_BY_ONE: Batching = { batchSize: 1, windowSeconds: 0 };

export async function start(args: readonly string[], { stdout, stderr }: Streams): Promise<number> {
  const options = parseOptions(args, {
    messages: { type: 'string', default: '2000' },
    'batch-size': { type: 'string' },
    window: { type: 'string', default: '1' },
    'arrival-rate': { type: 'string' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  });
  if (options.help) {
    stdout.write(HELP);
    return 0;
  }
  const count = wholeNumber('--messages', options.messages, 1, 1_000_000);
  const traffic = trafficOf(options);
  const messages = await demoMessages(new URL('digits/held-out.jsonl', MODELS), count);
  const report = await measure(messages, traffic, (message) => void stderr.write(`${message}\n`));
  stdout.write(options.json ? `${JSON.stringify(report.figures)}\n` : renderReport(report, stdout));
  const passes = [report.figures, report.figures.packed];
  return passes.every(({ missing, duplicates, wrongId }) => missing + duplicates + wrongId === 0) ? 0 : 1;
}

async function measure(
  messages: readonly DemoMessage[],
  traffic: Traffic,
  warn: (message: string) => void,
): Promise<DemoReport> {
  const tally = createTally((error) => warn(String(error)));
  const batchSize = traffic.batchSize ?? Math.min(BATCH_SIZE.max, Math.ceil(messages.length / INVOCATIONS));
  const { perSecond, windowSeconds } = traffic;
  const times = perSecond === undefined ? undefined : poissonArrivals(perSecond, messages.length).times;
  // Each invocation gathers on its own: of all messages at once, two would leave their last batches to wait out the window.
  const maximumConcurrency = times === undefined ? 1 : MAXIMUM_CONCURRENCY;
  const batching = { batchSize, windowSeconds, maximumConcurrency, times };
  const { batched, tallied, oneByOne } = await withStack('1', tally, warn, async (stack) => ({
    batched: await sendThrough(stack, messages, batching, { title: 'in batches', tally }),
    tallied: tally.take(),
    oneByOne: await sendThrough(stack, messages, { ...ONE_BY_ONE, times }, { title: 'one by one', tally }),
  }));
  const packed = await withStack(FILL, tally, warn, (stack) =>
    sendThrough(stack, messages, batching, { title: 'results packed', tally }),
  );
  const dollars = (pass: Pass): number => dollarsOf(pass, messages);
  const { p50Ms, p99Ms, ...checked } = assess(messages, batched.sent, batched.received);
  const { missing, duplicates, wrongId } = assess(messages, packed.sent, packed.received);
  const seconds = secondsOf(batched.sent, batched.received);
  const oneByOneSeconds = secondsOf(oneByOne.sent, oneByOne.received);
  return {
    batchSize,
    windowSeconds,
    waited: batched.invocations.filter(({ closedBecause }) => closedBecause === 'window').length,
    isAtARate: perSecond !== undefined,
    samples: samplesOf(
      messages,
      batched.received.map(({ body }) => body),
    ),
    figures: {
      messages: messages.length,
      ...checked,
      ...tallied,
      seconds,
      written: batched.written,
      invocations: batched.invocations.length,
      dollarsPerMillionRows: dollars(batched),
      packed: {
        missing,
        duplicates,
        wrongId,
        seconds: secondsOf(packed.sent, packed.received),
        written: packed.written,
        dollarsPerMillionRows: dollars(packed),
      },
      oneByOneSeconds,
      oneByOneDollarsPerMillionRows: dollars(oneByOne),
      speedup: oneByOneSeconds / seconds,
      p50Ms,
      p99Ms,
    },
  };
}

async function withStack<T>(
  resultsPerMessage: string,
  telemetry: DemoTally,
  warn: (message: string) => void,
  use: (stack: LocalStack) => Promise<T>,
): Promise<T> {
  const stack = await startLocalStack({
    port: 0,
    modelsDirectory: MODELS.pathname,
    defaultModel: 'digits',
    environment: { ...process.env, [CONFIG_KEYS.resultsPerMessage]: resultsPerMessage },
    telemetry,
    warn,
  });
  try {
    return await use(stack);
  } finally {
    await stack.stop();
  }
}

/** What went through in one pass. */
interface Pass {
  readonly sent: readonly Sent[];
  readonly received: readonly Received[];
  readonly written: Written;
  readonly invocations: readonly InvocationReport[];
}

function dollarsOf({ sent, received, written, invocations }: Pass, messages: readonly DemoMessage[]): number {
  const bytesOf = (bodies: readonly { readonly body: string }[]): number =>
    bodies.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0) / bodies.length;
  return dollarsPerMillionRows({
    invocations,
    seconds: secondsOf(sent, received),
    messageBytes: bytesOf(messages),
    resultBytes: bytesOf(received),
    packedResults: written.messages < written.results,
    maximumConcurrency: MAXIMUM_CONCURRENCY,
  });
}

async function sendThrough(
  stack: LocalStack,
  messages: readonly DemoMessage[],
  { times, ...batching }: Batching & { readonly times: Float64Array | undefined },
  { title, tally }: { readonly title: string; readonly tally: DemoTally },
): Promise<Pass> {
  const { requestQueueUrl, resultQueueUrl } = stack.queues;
  const watch = watchResults(stack.sqs, resultQueueUrl);
  const invocations: InvocationReport[] = [];
  const mapping = stack.startMapping({ ...batching, onInvocation: (report) => void invocations.push(report) });
  const bar = progressBar(title, messages.length, 'count');
  const errorsBefore = tally.errors();
  let sent: Sent[];
  try {
    sent = await exchange(stack.sqs, {
      requestQueueUrl,
      bodies: messages.map(({ body }) => body),
      times,
      resultsSoFar: () => watch.written().results,
      onProgress: (results) => bar.update(results, tally.errors() - errorsBefore),
    });
  } finally {
    bar.stop();
    await mapping.stop();
    watch.stop();
  }
  return { sent, received: await takeResults(stack.sqs, resultQueueUrl), written: watch.written(), invocations };
}

const MAX_WITHOUT_WINDOW = 10;
const MAX_A_SECOND = 1_000;

/** As they are typed. */
interface Options {
  readonly 'batch-size'?: string | undefined;
  readonly window: string;
  readonly 'arrival-rate'?: string | undefined;
}

/** How messages come, and how they are batched. */
interface Traffic {
  /** @default a quarter of all messages */
  readonly batchSize: number | undefined;
  readonly windowSeconds: number;
  /** Messages a second. @default as fast as the queue takes them */
  readonly perSecond: number | undefined;
}

/** @throws UsageError for what AWS would refuse, too */
function trafficOf({ 'batch-size': size, window, 'arrival-rate': rate }: Options): Traffic {
  const batchSize = size === undefined ? undefined : wholeNumber('--batch-size', size, 1, BATCH_SIZE.max);
  const windowSeconds = wholeNumber('--window', window, 0, WINDOW_SECONDS.max);
  if (windowSeconds === 0 && (batchSize === undefined || batchSize > MAX_WITHOUT_WINDOW)) {
    const got = batchSize === undefined ? 'no --batch-size' : `--batch-size ${batchSize}`;
    throw new UsageError(`--window: expected 0 only with a --batch-size of ${MAX_WITHOUT_WINDOW} or less, got ${got}`);
  }
  const perSecond = rate === undefined ? undefined : wholeNumber('--arrival-rate', rate, 1, MAX_A_SECOND);
  return { batchSize, windowSeconds, perSecond };
}

if (import.meta.main) await runCommand(start);
