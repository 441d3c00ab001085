import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { retryReasons, type Telemetry } from '../lambda/aws/telemetry.ts';
import { messageOf, plural } from '../lambda/core/failure.ts';
import { BATCH_SIZE, mappingProblems, type Range, SHARDS, WINDOW_SECONDS } from '../lambda/core/limits.ts';
import type { CloseReason, MicroBatchReport } from '../lambda/core/observer.ts';
import { unknownVariables } from '../lambda/hosts/config.ts';
import { CONFIG_KEYS, JOB_CONFIG_KEYS, STORES } from '../lambda/settings.ts';
import { parseOptions, runCommand, UsageError, wholeNumber } from './arguments.ts';
import { duration, figure, percent } from './format.ts';
import { BATCH_ENDED } from './local/gather.ts';
import type { InvocationReport } from './local/localMapping.ts';
import { startLocalServices, type Whereabouts, whereabouts, workerCommand } from './local/localServices.ts';
import { type Batching, type LocalStack, localModels } from './local/localStack.ts';
import { servePage } from './page/devPage.ts';
import { listenForInterruption, writeLine } from './terminal.ts';

/** Environment variables of jobs. The jobs' code checks their values. */
const OF_JOBS: readonly string[] = [JOB_CONFIG_KEYS.jobsPartBytes, JOB_CONFIG_KEYS.jobsPieceBytes];

const DEFAULTS = { batchSize: 100, windowSeconds: 1, results: 'queue' };

const HELP = `Usage: batchscore dev [options]; in the repository npm run dev -- [options]

Runs batchscore on this machine until Ctrl-C: an SQS server, the event source mapping and the
real Lambda handler. Any SQS client can send requests and receive results; any credentials do.
The first line on stdout is a JSON object with the endpoint, the region, the queue URLs and the
buckets, which share the endpoint, and page, the address of a page for browsers that shows what
goes on; with --results also the table and the result bucket. A file that is put under jobs/in/
of jobBucket is scored as a job, as on AWS.

  --port N         port on 127.0.0.1 (default 4566); 0 picks a free one
  --page-port N    port of the page (default: the one after --port, or any where that is taken)
  --clients N      result queues beside the first, one for each client that waits on a queue, 0 to 10
                   (default 0); clientQueueUrls has their URLs
  --shards N       request queues, ${SHARDS.min} to ${SHARDS.max} (default 1); their URLs are printed comma-separated
  --urgent         a queue beside them, urgentQueueUrl, whose requests are scored first
  --models DIR     model repository, DIR/<name>/<version>/model.onnx (default models),
                   or the s3:// URI of one that batchscore publish put into S3
  --batch-size N   most messages in one invocation, ${BATCH_SIZE.min} to ${BATCH_SIZE.max} (default ${DEFAULTS.batchSize})
  --window S       longest wait for a batch to fill, ${WINDOW_SECONDS.min} to ${WINDOW_SECONDS.max} seconds (default ${DEFAULTS.windowSeconds})
  --results LIST   where results go: ${STORES.join(', ')}, comma-separated (default ${DEFAULTS.results})
  --no-function    queues, tables and buckets alone, without the page; a line on stderr says how to start a worker
  --help           show this

BATCHSCORE_… environment variables tune the scoring, as they do on AWS. Without the option,
${CONFIG_KEYS.modelsUri}, ${CONFIG_KEYS.modelsDirectory}, ${CONFIG_KEYS.batchSize},
${CONFIG_KEYS.windowSeconds} and ${CONFIG_KEYS.results} stand in for it. The queues, tables
and buckets are always the local ones; models alone may come from AWS, from an s3:// URI.
When files of the model repository change, the models are loaded again.
`;

/** Models of the repository. The package has none and uses `models` in the working directory. */
const REPOSITORY_MODELS = fileURLToPath(new URL('../models', import.meta.url));
const DEFAULT_MODELS = existsSync(REPOSITORY_MODELS) ? REPOSITORY_MODELS : 'models';

async function run(args: readonly string[]): Promise<number> {
  const { env } = process;
  const options = parseOptions(args, {
    port: { type: 'string', default: '4566' },
    'page-port': { type: 'string' },
    clients: { type: 'string', default: '0' },
    shards: { type: 'string', default: '1' },
    urgent: { type: 'boolean', default: false },
    models: {
      type: 'string',
      default: env[CONFIG_KEYS.modelsUri] ?? env[CONFIG_KEYS.modelsDirectory] ?? DEFAULT_MODELS,
    },
    'batch-size': { type: 'string' },
    window: { type: 'string' },
    results: { type: 'string' },
    'no-function': { type: 'boolean', default: false },
  });
  const port = wholeNumber('--port', options.port, 0, 65_535);
  const pagePort = wholeNumber('--page-port', options['page-port'], 0, 65_535);
  const clients = wholeNumber('--clients', options.clients, 0, 10);
  const shards = wholeNumber('--shards', options.shards, SHARDS.min, SHARDS.max);
  const { urgent } = options;
  const stores = storesFrom(options.results, env);
  const batching = batchingFrom(options['batch-size'], options.window, env);
  const unknown = unknownVariables(Object.fromEntries(Object.entries(env).filter(([key]) => !OF_JOBS.includes(key))));
  if (unknown.length > 0) throw new Error(`configuration: ${unknown.join('; ')}`);

  if (options['no-function']) {
    const services = await startLocalServices({ port, shards, urgent, clients, stores });
    const { resultsPerMessage: key } = CONFIG_KEYS;
    const environment = { ...services.environment, [key]: env[key] };
    const message = ['ready for a worker; Ctrl-C stops', workerCommand({ ...services, environment })];
    await untilInterrupted(() => announce(services, message), 'requests that are under way', services.stop);
    return 0;
  }
  const { stack, page, stop } = await servePage({
    port,
    pagePort,
    batching: { ...batching, onInvocation: sayInvocation },
    shards,
    urgent,
    clients,
    modelsDirectory: await localModels(options.models, say),
    defaultModel: options.models === REPOSITORY_MODELS ? 'digits' : undefined,
    stores,
    environment: {
      ...env,
      [CONFIG_KEYS.batchSize]: String(batching.batchSize),
      [CONFIG_KEYS.windowSeconds]: String(batching.windowSeconds),
    },
    jobs: true,
    telemetry: createDevTelemetry(say),
    warn: say,
  });
  const ready = () => announce({ ...stack, page }, greeting(stack, page, batching));
  await untilInterrupted(ready, 'what was received, runs of models included', stop);
  return 0;
}

function sayInvocation({ records, endedBecause, failed, durationMs }: InvocationReport): void {
  say(
    `invocation: ${plural(records, 'message')} (closed: ${BATCH_ENDED[endedBecause]}), ${failed} to retry, ${duration(durationMs)}`,
  );
}

/**
 * Waits for the first SIGINT or SIGTERM, and then finishes.
 *
 * @param announceReady is called last, because a caller may interrupt as soon as it reads the first line
 * @param finishing description of the work to finish, printed if it takes a moment
 */
async function untilInterrupted(
  announceReady: () => void,
  finishing: string,
  finish: () => Promise<void>,
): Promise<void> {
  const interrupted = Promise.withResolvers<void>();
  const { finished } = listenForInterruption(finishing, interrupted.resolve);
  announceReady();
  await interrupted.promise;
  try {
    await finish();
  } finally {
    finished();
  }
}

/** Prints the addresses as JSON on stdout, and instructions on stderr. */
function announce(services: Whereabouts, message: readonly string[]): void {
  writeLine(process.stdout, JSON.stringify(whereabouts(services)));
  message.forEach(say);
}

function say(message: string): void {
  writeLine(process.stderr, message);
}

/**
 * Reads the stores. The environment variable is checked later, with the other variables.
 *
 * @throws UsageError if the option names no stores
 */
export function storesFrom(option: string | undefined, environment: NodeJS.ProcessEnv): string[] {
  const list = option ?? environment[CONFIG_KEYS.results] ?? DEFAULTS.results;
  const stores = list.split(',').map((store) => store.trim());
  const known: readonly string[] = STORES;
  if (option !== undefined && !stores.every((store) => known.includes(store))) {
    throw new UsageError(`--results: expected one or several of ${STORES.join(', ')}, comma-separated, got ${option}`);
  }
  return stores;
}

/** @throws UsageError for values that AWS rejects */
export function batchingFrom(
  batchSizeOption: string | undefined,
  windowOption: string | undefined,
  environment: NodeJS.ProcessEnv,
): Batching {
  const whole = (option: string, text: string | undefined, key: string, { min, max }: Range, fallback: number) =>
    wholeNumber(option, text, min, max) ?? wholeNumber(key, environment[key] ?? String(fallback), min, max);
  const { batchSize: sizeKey, windowSeconds: windowKey } = CONFIG_KEYS;
  const batchSize = whole('--batch-size', batchSizeOption, sizeKey, BATCH_SIZE, DEFAULTS.batchSize);
  const windowSeconds = whole('--window', windowOption, windowKey, WINDOW_SECONDS, DEFAULTS.windowSeconds);
  const problems = mappingProblems({ fifo: false, batchSize, windowSeconds });
  const inOptions = problems.join('; ').replaceAll('windowSeconds', '--window').replaceAll('batchSize', '--batch-size');
  if (problems.length > 0) throw new UsageError(inOptions);
  return { batchSize, windowSeconds };
}

/** Creates telemetry that prints events as sentences. On AWS they are metrics. */
export function createDevTelemetry(say: (message: string) => void): Telemetry {
  return {
    middlewares: [],
    outcomes(outcomes, records) {
      // Only the codes are printed. An error message may quote the request, and a log must not.
      const codes = outcomes.flatMap((outcome) =>
        outcome.status === 'answered' ? outcome.failures.map(({ code }) => code) : [],
      );
      for (const code of new Set(codes)) say(`  ${code} ${codes.filter((one) => one === code).length}×`);
      for (const { code, reason, records: met } of retryReasons(outcomes, records)) {
        say(`  ${code} ${met}×, to be retried: ${reason}`);
      }
    },
    scorerLost: (error) => say(`  ${error.message}; another one goes on, with requests that may be to blame alone`),
    observer: {
      microBatch: (report) => say(`  micro-batch: ${describe(report)}`),
      decoded: () => {},
      checked: () => {},
      batchMismatch: ({ model, version, messageId, difference }) =>
        say(`  ${model}/${version} is not batched from now on: '${difference.output}' of ${messageId} differs alone`),
      written: (writeMs) => say(`  written in ${duration(writeMs)}`),
      problem: (error) => say(`  problem: ${messageOf(error)}`),
    },
  };
}

/** Reasons why a micro-batch ran, as text for users. */
const MICRO_BATCH_CLOSED: Readonly<Record<CloseReason, string>> = {
  full: 'full',
  budget: 'element budget reached',
  padding: 'another run costs less than the padding',
  dearer: 'dearer together',
  end: 'end of the batch that SQS handed over',
};

function describe(report: MicroBatchReport): string {
  const { model, version, rows, paddedRows, paddedLength, paddingShare, closedBecause } = report;
  const { stackMs, runMs, encodeMs } = report;
  const run = paddedLength > 1 ? `${paddedRows} × ${paddedLength}` : String(paddedRows);
  const padding = paddingShare > 0 ? `, ${percent(paddingShare)} padding` : '';
  const stages = [stackMs, runMs, encodeMs].map(figure).join(' + ');
  return `${model}/${version}, ${plural(rows, 'row')} run as ${run}${padding} (closed: ${MICRO_BATCH_CLOSED[closedBecause]}), stack + run + encode ${stages} ms`;
}

function greeting({ scorer, queues }: LocalStack, page: string, { batchSize, windowSeconds }: Batching): string[] {
  const names = scorer.models.map(({ name, version }) => `${name}/${version}`).join(', ');
  return [
    `ready for ${names}; Ctrl-C stops`,
    `  look   ${page} in a browser`,
    `  send   to ${queues.endpoint}, with any SQS client and any credentials`,
    '         npx batchscore submit FILE --stack stack.json: the line above, in a file',
    `  batch  up to ${plural(batchSize, 'message')}, ${windowSeconds === 0 ? 'without a window' : `or those of ${windowSeconds} s`}`,
  ];
}

export const dev = { help: HELP, run };

if (import.meta.main) await runCommand(run, HELP);
