import { createPoller, createReceiver } from '../aws/requestQueue.ts';
import type { SqsCaller } from '../aws/sqsCalls.ts';
import { messageOf } from '../core/contract/failure.ts';
import type { MessageRecord } from '../core/contract/record.ts';
import type { WorkerSettings } from './settings.ts';

export interface IntakeOptions {
  readonly settings: WorkerSettings;
  readonly sqs: SqsCaller;
  /**
   * Whether there is room for so many records more, of about so many bytes together.
   *
   * @param ofQueue how many of them the queue to be polled may bring by the polls that are in flight
   */
  readonly hasRoom: (records: number, bytes: number, ofQueue: number) => boolean;
  readonly take: (records: readonly MessageRecord[]) => void;
  /** Told of a receive that failed; it is made again after a pause. */
  readonly onError: (error: Error) => void;
}

/** Receives from all request queues. */
export interface Intake {
  /** To be called whenever room was made. */
  poll(): void;
  /**
   * Starts no more polls, and resolves when those in flight have returned. They are not aborted: SQS would go on handing
   * messages to them, which nobody would see until their visibility timeout ends.
   */
  stop(): Promise<void>;
  /** Gives up polls that have outlasted their wait, so that they hold up nothing else. */
  abort(): void;
}

/** What SQS gives at most in one answer. */
const RECORDS_A_POLL = 10;

export function createIntake({ settings, sqs, hasRoom, take, onError }: IntakeOptions): Intake {
  const { queueUrls, batchSize, mostPolls } = settings;
  const recordsAPoll = Math.min(RECORDS_A_POLL, batchSize);
  const givenUp = new AbortController();
  const comingOf = queueUrls.map(() => 0);
  let bytesAPoll = 0;
  const pollers = queueUrls.map((queueUrl, index) => {
    const receive = createReceiver({ ...settings, queueUrl, sqs, most: recordsAPoll });
    return createPoller<MessageRecord>({
      async receive() {
        (comingOf[index] as number) += recordsAPoll;
        try {
          return await receive(givenUp.signal);
        } finally {
          (comingOf[index] as number) -= recordsAPoll;
        }
      },
      recordsAPoll,
      mostPolls: Math.max(1, Math.floor(mostPolls / queueUrls.length)),
      hasRoom() {
        const coming = comingOf.reduce((sum, one) => sum + one, 0);
        return hasRoom(coming, (coming / recordsAPoll) * bytesAPoll, comingOf[index] as number);
      },
      take(records) {
        bytesAPoll = records.reduce((sum, { body }) => sum + body.length, 0);
        take(records);
      },
      onError: (cause) => onError(failedReceive(queueUrl, cause, givenUp.signal.aborted)),
      pauseMs: backoffMs,
    });
  });
  return {
    poll() {
      for (const poller of pollers) poller.poll();
    },
    stop: async () => void (await Promise.all(pollers.map((poller) => poller.stop()))),
    abort: () => givenUp.abort(),
  };
}

function failedReceive(queueUrl: string, cause: unknown, isGivenUp: boolean): Error {
  const then = isGivenUp
    ? 'there is no time left to wait; what SQS gave to this poll comes back when its visibility timeout ends'
    : 'it is tried again';
  const message = `receiving from ${queueUrl}: expected messages or none, got '${messageOf(cause)}'; ${then}`;
  return new Error(message, { cause });
}

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 20_000;

/** Between half and all of 0.2, 0.4, 0.8, … seconds, at most 20. */
function backoffMs(failures: number): number {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1));
  return longest / 2 + (Math.random() * longest) / 2;
}
