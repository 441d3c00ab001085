import type { SendMessageBatchRequest, SendMessageBatchResult, SQSClient } from '@aws-sdk/client-sqs';
import { RESULTS_ATTRIBUTE } from '../../lambda/core/record.ts';

/** What was written to the result queue. */
export interface Written {
  readonly results: number;
  readonly messages: number;
  /** Calls of SendMessageBatch. */
  readonly calls: number;
}

const NAME = 'watchResults';

/** Counts what a client writes to the result queue, until it is told to stop. */
export function watchResults(sqs: SQSClient, resultQueueUrl: string): { written(): Written; stop(): void } {
  const written = { results: 0, messages: 0, calls: 0 };
  sqs.middlewareStack.add(
    (next) => async (args) => {
      const { QueueUrl, Entries = [] } = args.input as Partial<SendMessageBatchRequest>;
      const reply = await next(args);
      if (QueueUrl !== resultQueueUrl || Entries.length === 0 || !('MessageBody' in (Entries[0] ?? {}))) return reply;
      const { Successful = [] } = reply.output as SendMessageBatchResult;
      const taken = new Set(Successful.map(({ Id }) => Id));
      written.calls += 1;
      for (const { Id, MessageAttributes } of Entries) {
        if (!taken.has(Id)) continue;
        written.messages += 1;
        written.results += Number(MessageAttributes?.[RESULTS_ATTRIBUTE]?.StringValue ?? 1);
      }
      return reply;
    },
    { step: 'initialize', name: NAME },
  );
  return { written: () => written, stop: () => void sqs.middlewareStack.remove(NAME) };
}
