import { SQSClient } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';
import { type Observer, SILENT } from '../../lambda/core/observer.ts';
import type { Outcome, ResultWriter } from '../../lambda/core/record.ts';
import { compose } from '../../lambda/hosts/compose.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { createHandler } from '../../lambda/hosts/createHandler.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';

/** Scores records. @throws Error if one is not answered with scores */
export type Score = (records: SQSRecord[]) => Promise<void>;

const LONGEST_INVOCATION_MS = 900_000;
const NO_QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/none';

/**
 * Opens the handler without queues. Results are written to memory, and there is no telemetry.
 *
 * @param settings environment variables of the function
 * @param observe takes the report of each run. @default ignored
 */
export async function openHandler(
  settings: Readonly<Record<string, string>>,
  observe: Observer['microBatch'] = () => {},
): Promise<Score> {
  const config = loadConfig({
    ...settings,
    [CONFIG_KEYS.requestQueueUrls]: NO_QUEUE,
    [CONFIG_KEYS.resultQueueUrl]: `${NO_QUEUE}-of-results`,
  });
  const telemetry = {
    observer: { ...SILENT, microBatch: observe, problem: rethrow },
    outcomes: refuseUnscored,
    middlewares: [],
  };
  const { scoring } = await compose(config, {
    clients: { sqs: new SQSClient({ region: 'eu-central-1' }), s3: refuse },
    telemetry,
    warn: (message) => void process.stderr.write(`${message}\n`),
  });
  const handler = createHandler({
    scoring: { ...scoring, writer: createConsumingWriter() },
    delayRetries: async () => {},
    telemetry,
  });
  return async (Records) => {
    await handler({ Records }, createLambdaContext(Date.now() + LONGEST_INVOCATION_MS));
  };
}

function refuseUnscored(outcomes: readonly Outcome[]): void {
  for (const outcome of outcomes) {
    const failed = outcome.status === 'retry' ? outcome.failure : outcome.failures[0];
    if (failed !== undefined)
      throw new Error(`expected scores for every record, got ${failed.code}: ${failed.message}`);
  }
}

function rethrow(error: unknown): never {
  throw error;
}

function refuse(): never {
  throw new Error('expected results to go to memory only');
}

const LARGEST_RESULT_BYTES = 4 * 1024 * 1024;

/** Creates a writer that accepts every result and keeps none. It encodes each body to bytes, as every store does. */
function createConsumingWriter(): ResultWriter {
  const sink = Buffer.allocUnsafe(LARGEST_RESULT_BYTES);
  return {
    async write(results) {
      for (const { body } of results) sink.write(body);
      return results.map(() => ({ written: true as const }));
    },
  };
}
