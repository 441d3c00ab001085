import { CreateQueueCommand, PurgeQueueCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { createQueueWriter } from '../../../lambda/aws/resultQueue.ts';
import type { Config } from '../../../lambda/configSchema.ts';
import { FILL } from '../../../lambda/core/limits.ts';
import type { ResultWriter } from '../../../lambda/core/record.ts';
import type { LocalQueues } from '../queues.ts';

export interface OwnResultsOptions {
  readonly sqs: SQSClient;
  readonly queues: LocalQueues;
  readonly config: Pick<Config, 'resultsPerMessage' | 'resultMessageBytes'>;
}

/** Where what the page sends is answered: it costs the function as much as anybody's, and nobody's queue fills up. */
export interface OwnResults {
  readonly writer: ResultWriter;
  /** Takes away what was written: nobody receives it. */
  takeAway(): Promise<void>;
}

const QUEUE = 'batchscore-page-results';

export async function createOwnResults({ sqs, queues, config }: OwnResultsOptions): Promise<OwnResults> {
  await sqs.send(new CreateQueueCommand({ QueueName: QUEUE }));
  const queueUrl = queues.resultQueueUrl.replace(/[^/]+$/, QUEUE);
  const { resultsPerMessage, resultMessageBytes: bytes } = config;
  const results = resultsPerMessage === FILL ? Number.POSITIVE_INFINITY : resultsPerMessage;
  const writer = createQueueWriter({ sqs, queueUrl, packing: { results, bytes } });
  let holdsSome = false;
  return {
    writer: {
      write(all, signal) {
        holdsSome = true;
        return writer.write(all, signal);
      },
    },
    async takeAway() {
      if (!holdsSome) return;
      holdsSome = false;
      await sqs.send(new PurgeQueueCommand({ QueueUrl: queueUrl }));
    },
  };
}
