import { type BatchResultErrorEntry, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { createSqsClient, type Patience } from './awsClients.ts';
import { describeError, isCallersFault, outageKind } from './awsError.ts';
import { type CallReport, observed } from './observedCalls.ts';
import { packBatches, type Refusal } from './sendBatches.ts';

/** What makes calls of SQS. */
export type SqsCaller = Pick<SQSClient, 'send'>;

/** How a host calls SQS. Plain data, as threads are told it too. */
export interface SqsCallerSpec {
  readonly patience: Patience;
  /** Of receives, which wait for messages. */
  readonly pollPatience: Patience;
  /** What the environment does not say. @default nothing */
  readonly client?: ClientConfig | undefined;
}

/** The part of a client's configuration that is plain data. */
interface ClientConfig {
  readonly endpoint?: string;
  readonly region?: string;
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** @param onCall told of each call once it has ended */
export function createSqsCaller(
  { patience, pollPatience, client = {} }: SqsCallerSpec,
  onCall?: (report: CallReport) => void,
): SqsCaller {
  const create = (patience: Patience) =>
    observed(createSqsClient(patience, { useQueueUrlAsEndpoint: false, ...client }), onCall);
  const [calls, polls] = [create(patience), create(pollPatience)];
  const send = (command: ReceiveMessageCommand, options?: { readonly abortSignal?: AbortSignal }) =>
    (command instanceof ReceiveMessageCommand ? polls : calls).send(command, options);
  // Each command has an overload of its own.
  return { send: send as SqsCaller['send'] };
}

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html */
export const MAX_BATCH_ENTRIES = 10;
/** Bodies and attributes of one message, and of one batch request together. */
export const MAX_MESSAGE_BYTES = 1_048_576;

/** Packs entries, in order, into batch requests of at most 10 entries and 1 MiB, or as many bytes as a queue takes. */
export function packBatchRequests<T extends { readonly bytes: number }>(
  entries: readonly T[],
  maxBytes = MAX_MESSAGE_BYTES,
): T[][] {
  return packBatches(entries, { maxEntries: MAX_BATCH_ENTRIES, maxBytes });
}

/** What SQS answers to any batch request; real answers hold both lists. */
export interface BatchAnswer {
  readonly Successful?: readonly { readonly Id?: string | undefined }[] | undefined;
  readonly Failed?: readonly BatchResultErrorEntry[] | undefined;
}

/**
 * The entries that a 200 answer does not report done, and why. The ID of an entry is its position in `batch`; one that
 * the answer does not name failed too.
 */
export function refusalsIn<E>(batch: readonly E[], { Successful = [], Failed = [] }: BatchAnswer): Refusal<E>[] {
  const done = new Set(Successful.map(({ Id }) => Id));
  const failed = new Map(Failed.map((one) => [one.Id, one]));
  const refusals: Refusal<E>[] = [];
  for (const [position, entry] of batch.entries()) {
    const refused = failed.get(String(position));
    if (refused !== undefined) {
      const again = refused.SenderFault !== true;
      refusals.push({ entry, reason: describe(refused), again, outage: again ? 'busy' : undefined });
    } else if (!done.has(String(position))) {
      refusals.push({ entry, reason: 'no answer for this entry', again: true, outage: 'busy' });
    }
  }
  return refusals;
}

function describe({ Code, Message }: BatchResultErrorEntry): string {
  return Message ? `${Code}: ${Message}` : String(Code);
}

/** Every entry of a batch request that failed as a whole. */
export function allRefused<E>(batch: readonly E[], error: unknown): Refusal<E>[] {
  const [reason, again, outage] = [describeError(error), !isCallersFault(error), outageKind(error)];
  return batch.map((entry) => ({ entry, reason, again, outage }));
}
