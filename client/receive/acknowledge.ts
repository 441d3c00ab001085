import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type DeleteMessageBatchResult,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import pLimit from 'p-limit';
import { isCallersFault } from '../../lambda/aws/awsError.ts';
import { type RetryOptions, untilDone } from '../../lambda/aws/sendBatches.ts';
import { MAX_BATCH_ENTRIES } from '../../lambda/aws/sqsCalls.ts';

/** Deletes received messages and gives them back, ten a batch request, in the background. */
export interface Acknowledger {
  /** Deletes the message. */
  remove(receiptHandle: string): void;
  /** Makes the message visible to others at once. */
  giveBack(receiptHandle: string): void;
  /** Resolves when all of it so far is done or given up; what was given up comes back after its visibility timeout. */
  idle(): Promise<void>;
}

export interface AcknowledgerOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly closing: AbortSignal;
  readonly retry?: RetryOptions;
}

/** Most batch requests in flight: thousands of messages may be given back at once. */
const IN_FLIGHT = 8;

export function createAcknowledger({ sqs, queueUrl: QueueUrl, closing, retry }: AcknowledgerOptions): Acknowledger {
  const running = new Set<Promise<void>>();
  const inFlight = pLimit(IN_FLIGHT);
  const inBatches = (request: (handles: readonly string[]) => Promise<readonly string[]>) =>
    gatherEachTick((handles) => {
      const done = inFlight(() => untilDone(handles, (left) => orAllAgain(left, request), closing, retry)).then(() => {
        running.delete(done);
      });
      running.add(done);
    });
  const removals = inBatches(async (handles) => {
    const Entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
    return worthAnotherTry(handles, await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries })));
  });
  const returns = inBatches(async (handles) => {
    const Entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle, VisibilityTimeout: 0 }));
    return worthAnotherTry(handles, await sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries })));
  });
  return {
    remove: removals.add,
    giveBack: returns.add,
    async idle() {
      removals.flush();
      returns.flush();
      await Promise.all(running);
    },
  };
}

interface Gatherer {
  add(handle: string): void;
  flush(): void;
}

/** Hands on what was added in one turn of the event loop, ten at a time. */
function gatherEachTick(handOn: (handles: readonly string[]) => void): Gatherer {
  const gathered: string[] = [];
  const flush = (): void => {
    while (gathered.length > 0) handOn(gathered.splice(0, MAX_BATCH_ENTRIES));
  };
  return {
    add(handle) {
      if (gathered.push(handle) === 1) setImmediate(flush);
    },
    flush,
  };
}

/** Those that the answer does not report done, except those that SQS will never do. */
function worthAnotherTry(
  handles: readonly string[],
  { Successful = [], Failed = [] }: Partial<DeleteMessageBatchResult>,
): string[] {
  const refused = Failed.filter(({ SenderFault }) => SenderFault === true);
  const settled = new Set([...Successful, ...refused].map(({ Id }) => Id));
  return handles.filter((_, index) => !settled.has(String(index)));
}

async function orAllAgain(
  handles: readonly string[],
  request: (handles: readonly string[]) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  try {
    return await request(handles);
  } catch (error) {
    return isCallersFault(error) ? [] : handles;
  }
}
