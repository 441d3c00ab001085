import { ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { createSqsClient, type Patience } from '../awsClients.ts';
import { type CallReport, observed } from '../observedCalls.ts';

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
export interface ClientConfig {
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
