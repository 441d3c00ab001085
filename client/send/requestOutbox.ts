import type { SQSClient } from '@aws-sdk/client-sqs';
import type { Payloads } from '../base/payloads.ts';
import { type OffloadOptions, offloaded, packedEntry } from './entry.ts';
import { createOutbox, type Outbox } from './outbox.ts';
import type { QueueLimit } from './queueLimit.ts';
import { sendCall } from './sendCall.ts';
import { inTurn, shardOf } from './shards.ts';

export interface RequestOutboxOptions extends OffloadOptions {
  readonly sqs: SQSClient;
  /** One for each shard, all of one kind. */
  readonly requestQueueUrls: readonly string[];
  readonly fifo: boolean;
  /** Most calls in flight; on FIFO queues for each of them. */
  readonly maxInFlight: number;
  readonly limit: QueueLimit;
  readonly payloads: Payloads | undefined;
  readonly closing: AbortSignal;
}

/**
 * The outbox of the request queue. The calls of standard queues take the shards in turn, so that each call is full. FIFO
 * queues have an outbox each, and each message group has its queue: what is in order stays in one.
 *
 * @returns undefined where there is no request queue
 */
export function createRequestOutbox(options: RequestOutboxOptions): Outbox | undefined {
  const { requestQueueUrls, fifo } = options;
  if (requestQueueUrls.length === 0) return undefined;
  if (!fifo) {
    const turns = inTurn(requestQueueUrls);
    return outboxTo(() => turns.next().value, options);
  }
  const shards = requestQueueUrls.map((queueUrl) => ({ queueUrl, outbox: outboxTo(() => queueUrl, options) }));
  return {
    send: (entry, packing, signal) => shardOf(entry.group ?? '', shards).outbox.send(entry, packing, signal),
    async room() {
      await Promise.all(shards.map(({ outbox }) => outbox.room()));
    },
  };
}

/** @param nextQueueUrl where the next call goes */
function outboxTo(nextQueueUrl: () => string, options: RequestOutboxOptions): Outbox {
  const { sqs, maxInFlight, limit, payloads, closing } = options;
  return createOutbox({
    pack: (requests) => {
      const entry = packedEntry(requests);
      const fits = requests.length === 1 || entry.bytes <= limit.bytes();
      return fits ? entry : offloaded(entry, options, limit.bytes());
    },
    sendCall: (entries) => sendCall(sqs, nextQueueUrl(), entries),
    offload: async ({ payload }) => {
      if (payload !== undefined) await payloads?.put(payload.pointer, payload.text);
    },
    shrink: (entry, maxBytes) => {
      limit.lower(maxBytes);
      return offloaded(entry, options, maxBytes);
    },
    maxBytes: () => limit.bytes(),
    maxInFlight,
    closing,
  });
}
