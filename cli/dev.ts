import { fileURLToPath } from 'node:url';
import { retryReasons } from '../lambda/adapters/telemetry/retryReasons.ts';
import type { Telemetry } from '../lambda/adapters/telemetry/telemetry.ts';
import { CONFIG_KEYS } from '../lambda/configKeys.ts';
import { messageOf } from '../lambda/core/contract/failure.ts';
import type { MicroBatchReport } from '../lambda/core/contract/observer.ts';
import { parseOptions, runCommand, UsageError, wholeNumber } from './arguments.ts';
import { type Batching, type LocalStack, startLocalStack } from './local/stack.ts';

const HELP = `Usage: npm run dev -- [options]

Runs batchscore on this machine until Ctrl-C: an SQS server, the event source mapping and the
real Lambda handler. Any SQS client can send requests and receive results; any credentials do.
The first line on stdout is a JSON object with the endpoint, the region and the queue URLs, and
with the payload bucket, which shares the endpoint. With --results it also names the table
and the result bucket.

  --port N         port on 127.0.0.1 (default 4566); 0 picks a free one
  --models DIR     model repository, DIR/<name>/<version>/model.onnx (default: this repository's)
  --batch-size N   most messages in one invocation, 1 to 10000 (default 100)
  --window S       longest wait for a batch to fill, 0 to 300 seconds (default 1)
  --results LIST   where results go: queue, table, bucket, comma-separated (default queue)
  --help           show this

BATCHSCORE_… environment variables tune the scoring, as they do on AWS; options come before
them, and the queues, tables and buckets are always the local ones.
`;

const REPOSITORY_MODELS = fileURLToPath(new URL('../models', import.meta.url));

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args, {
    port: { type: 'string', default: '4566' },
    models: { type: 'string', default: process.env[CONFIG_KEYS.modelsDirectory] ?? REPOSITORY_MODELS },
    'batch-size': { type: 'string', default: '100' },
    window: { type: 'string', default: '1' },
    results: { type: 'string', default: process.env[CONFIG_KEYS.results] ?? 'queue' },
    help: { type: 'boolean', default: false },
  });
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const port = wholeNumber('--port', options.port, 0, 65_535);
  const batchSize = wholeNumber('--batch-size', options['batch-size'], 1, 10_000);
  const windowSeconds = wholeNumber('--window', options.window, 0, 300);
  if (batchSize > 10 && windowSeconds < 1) {
    throw new UsageError(`--window: expected at least 1 with a batch size above 10, as on AWS, got 0`);
  }

  const stack = await startLocalStack({
    port,
    modelsDirectory: options.models,
    defaultModel: options.models === REPOSITORY_MODELS ? 'digits' : undefined,
    results: options.results,
    environment: process.env,
    telemetry: createDevTelemetry(),
    warn: say,
  });
  await serve(stack, { batchSize, windowSeconds }, options.results);
  return 0;
}

/** Hands messages to the handler until the first SIGINT or SIGTERM, then finishes what was received. */
async function serve(stack: LocalStack, batching: Batching, results: string): Promise<void> {
  const mapping = stack.startMapping({
    ...batching,
    onInvocation: ({ records, closedBecause, failed, durationMs }) =>
      say(
        `invocation: ${records} messages (closed by ${closedBecause}), ${failed} to retry, ${durationMs.toFixed(0)} ms`,
      ),
  });
  const stopped = untilSignal();
  announce(stack, results);
  await stopped;
  say('finishing what was received, runs of models included; Ctrl-C again leaves at once');
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(130));
  await mapping.stop();
  await stack.stop();
}

function announce({ queues, buckets, table, models }: LocalStack, results: string): void {
  const { endpoint, region, requestQueueUrl, resultQueueUrl, deadLetterQueueUrl } = queues;
  const where = {
    endpoint,
    region,
    requestQueueUrl,
    resultQueueUrl,
    deadLetterQueueUrl,
    payloadBucket: buckets.payloadBucket,
    s3Endpoint: buckets.endpoint,
    ...(table === undefined ? {} : { resultTable: table.tableName, dynamodbEndpoint: table.endpoint }),
    ...(results.split(',').includes('bucket') ? { resultBucket: buckets.resultBucket } : {}),
  };
  process.stdout.write(`${JSON.stringify(where)}\n`);
  say(`ready for ${models.map(({ name, version }) => `${name}/${version}`).join(', ')}; Ctrl-C stops`);
}

function untilSignal(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGINT', () => resolve());
    process.once('SIGTERM', () => resolve());
  });
}

/** Says on stderr what the metrics say on AWS. */
function createDevTelemetry(): Telemetry {
  return {
    middlewares: [],
    outcomes(outcomes, records) {
      // The codes alone: an error's message may quote the request, and a log must not.
      const codes = outcomes.flatMap((outcome) =>
        outcome.status === 'answered' ? outcome.failures.map(({ code }) => code) : [],
      );
      for (const code of new Set(codes)) say(`  ${code} ${codes.filter((one) => one === code).length}×`);
      for (const { code, reason, records: met } of retryReasons(outcomes, records)) {
        say(`  ${code} ${met}×, to be retried: ${reason}`);
      }
    },
    hostEnds: () => {},
    observer: {
      microBatch: (report) => say(`  micro-batch: ${describe(report)}`),
      decoded: () => {},
      runAbandoned: ({ name, version }, ranMs) =>
        say(`  a run of ${name}/${version} was left behind after ${ranMs} ms`),
      problem: (error) => say(`  problem: ${messageOf(error)}`),
    },
  };
}

function describe(report: MicroBatchReport): string {
  const { model, version, rows, paddedRows, paddedLength, paddingShare, closedBecause } = report;
  const { stackMs, runMs, encodeMs, writeMs } = report;
  const run = paddedLength > 1 ? `${paddedRows} × ${paddedLength}` : String(paddedRows);
  const padding = paddingShare > 0 ? `, ${(100 * paddingShare).toFixed(1)} % padding` : '';
  const stages = [stackMs, runMs, encodeMs, writeMs].map((ms) => ms.toFixed(1)).join(' + ');
  return `${model}/${version}, ${rows} rows run as ${run}${padding} (closed: ${closedBecause}), stack + run + encode + write ${stages} ms`;
}

function say(message: string): void {
  process.stderr.write(`${message}\n`);
}

await runCommand(main);
