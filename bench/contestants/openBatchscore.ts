import { SQSClient } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';
import type { Outcome, ResultWriter } from '../../lambda/core/record.ts';
import { compose } from '../../lambda/hosts/compose.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { createHandler } from '../../lambda/hosts/createHandler.ts';
import type { ScoringDependencies } from '../../lambda/hosts/records.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';

/** Batchscore without queues. Results are written to memory, and there is no telemetry. */
export interface Batchscore {
  /** Invokes the handler once. @throws Error if a record is not answered with scores */
  invoke(records: SQSRecord[]): Promise<void>;
  close(): Promise<void>;
}

const LONGEST_INVOCATION_MS = 900_000;
const NO_QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/none';

/**
 * @param directory the model repository
 * @param variables further environment variables
 */
export async function openBatchscore(
  directory: string,
  model: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<Batchscore> {
  const config = loadConfig({
    [CONFIG_KEYS.modelsDirectory]: directory,
    [CONFIG_KEYS.defaultModel]: model,
    [CONFIG_KEYS.preload]: 'false',
    [CONFIG_KEYS.requestQueueUrls]: NO_QUEUE,
    [CONFIG_KEYS.resultQueueUrl]: `${NO_QUEUE}-of-results`,
    ...variables,
  });
  const { scoring, close } = await compose(config, {
    clients: { sqs: new SQSClient({ region: 'eu-central-1' }), s3: refuse },
    telemetry: { observer: SILENT, outcomes: refuseUnscored, middlewares: [] },
    warn,
  });
  return toBatchscore({ ...scoring, writer: createConsumingWriter() }, close);
}

function warn(message: string): void {
  process.stderr.write(`${message}\n`);
}

function toBatchscore(scoring: ScoringDependencies, close: () => Promise<void>): Batchscore {
  const handler = createHandler({
    scoring,
    delayRetries: async () => {},
    telemetry: { observer: scoring.observer, outcomes: refuseUnscored, middlewares: [] },
  });
  // The context is created once, because Lambda creates it outside the handler.
  const context = createLambdaContext(0);
  return {
    async invoke(Records) {
      const deadlineMs = Date.now() + LONGEST_INVOCATION_MS;
      await handler({ Records }, { ...context, getRemainingTimeInMillis: () => deadlineMs - Date.now() });
    },
    close,
  };
}

function refuseUnscored(outcomes: readonly Outcome[]): void {
  for (const outcome of outcomes) {
    const failed = outcome.status === 'retry' ? outcome.failure : outcome.failures[0];
    if (failed !== undefined)
      throw new Error(`expected scores for every record, got ${failed.code}: ${failed.message}`);
  }
}

const SILENT = {
  microBatch() {},
  decoded() {},
  checked() {},
  batchMismatch() {},
  written() {},
  problem: raise,
};

function refuse(): never {
  throw new Error('expected results to go to memory only');
}

function raise(error: unknown): never {
  throw error;
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
