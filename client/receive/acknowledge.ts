import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type DeleteMessageBatchResult,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { isCallersFault } from '../../lambda/adapters/awsError.ts';
import { type RetryOptions, untilDone } from '../../lambda/adapters/retry.ts';
import { MAX_BATCH_ENTRIES } from '../../lambda/adapters/sqs/limits.ts';

/** Deletes, releases and hides received messages, ten a call, in the background. */
export interface Acknowledger {
  /** Deletes the message. */
  remove(receiptHandle: string): void;
  /** Makes the message visible to others at once. */
  release(receiptHandle: string): void;
  /** Keeps the message from everyone for {@link ORPHAN_HIDDEN_SECONDS}. */
  hide(receiptHandle: string): void;
  /** Resolves when all of it so far is done or given up; what was given up comes back after its visibility timeout. */
  idle(): Promise<void>;
}

/** Long enough to get at what is queued behind results that nobody seems to wait for. */
const ORPHAN_HIDDEN_SECONDS = 10;

export interface AcknowledgerOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly closing: AbortSignal;
  readonly retry?: RetryOptions;
}

export function createAcknowledger({ sqs, queueUrl: QueueUrl, closing, retry }: AcknowledgerOptions): Acknowledger {
  const running = new Set<Promise<void>>();
  const inBatches = (call: (handles: readonly string[]) => Promise<readonly string[]>) =>
    gatherEachTick((handles: readonly string[]) => {
      const done = untilDone(handles, (left) => orAllAgain(left, call), closing, retry).then(() => {
        running.delete(done);
      });
      running.add(done);
    });
  const remove = inBatches(async (handles) => {
    const Entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
    return worthAnotherTry(handles, await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries })));
  });
  const changeVisibility = (VisibilityTimeout: number) =>
    inBatches(async (handles) => {
      const Entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle, VisibilityTimeout }));
      return worthAnotherTry(handles, await sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries })));
    });
  const release = changeVisibility(0);
  const hide = changeVisibility(ORPHAN_HIDDEN_SECONDS);
  return {
    remove: remove.add,
    release: release.add,
    hide: hide.add,
    async idle() {
      remove.flush();
      release.flush();
      hide.flush();
      await Promise.all(running);
    },
  };
}

interface Gatherer {
  add(item: string): void;
  flush(): void;
}

/** Hands on what was added in one turn of the event loop, ten at a time. */
function gatherEachTick(handOn: (items: readonly string[]) => void): Gatherer {
  const gathered: string[] = [];
  const flush = (): void => {
    while (gathered.length > 0) handOn(gathered.splice(0, MAX_BATCH_ENTRIES));
  };
  return {
    add(item) {
      if (gathered.push(item) === 1) setImmediate(flush);
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
  call: (handles: readonly string[]) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  try {
    return await call(handles);
  } catch (error) {
    return isCallersFault(error) ? [] : handles;
  }
}
