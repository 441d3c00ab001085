import type { ActOnMessages } from '../aws/requestQueue.ts';
import { createVisibilityChange, perQueue, type QueuedMessage } from '../aws/requestQueue.ts';
import type { SqsCaller } from '../aws/sendBatches.ts';
import { type Clock, SYSTEM_CLOCK } from '../core/concurrency.ts';
import type { MessageRecord } from '../core/record.ts';

interface VisibilityLeasesOptions {
  /** How long a record stays hidden from others once it was received or extended. */
  readonly visibilitySeconds: number;
  readonly extend: ActOnMessages<Extension>;
  /** Told of records whose time is over although they were to be extended: others may have received them by now. */
  readonly onExpired: (records: ReadonlySet<MessageRecord>) => void;
  /** @default the system's */
  readonly clock?: Clock | undefined;
}

/** Every record that was received and has neither been deleted nor handed back. None of it becomes visible to others. */
export interface VisibilityLeases {
  add(records: readonly MessageRecord[]): void;
  /**
   * Extends records no more, although they still count. Resolves when no extension is under way: what SQS is then told of
   * how long they stay hidden holds.
   */
  endExtending(records: readonly MessageRecord[]): Promise<void>;
  remove(records: readonly MessageRecord[]): void;
  size(): number;
  /** Ends the heartbeat. */
  stop(): void;
}

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html */
const MAX_SECONDS = 43_200;
/** A record is extended when a third of its time is over: two more tries are left. */
const EXTEND_AT_SHARE_LEFT = 2 / 3;
const LOOKS_PER_VISIBILITY = 12;

interface Hold {
  readonly receivedAt: number;
  visibleAt: number;
  isExtended: boolean;
}

export function createVisibilityLeases({
  visibilitySeconds,
  extend,
  onExpired,
  clock = SYSTEM_CLOCK,
}: VisibilityLeasesOptions): VisibilityLeases {
  const visibilityMs = 1000 * visibilitySeconds;
  const held = new Map<MessageRecord, Hold>();
  let extending: Promise<void> | undefined;

  const look = (): void => {
    cancel = clock.after(visibilityMs / LOOKS_PER_VISIBILITY, look);
    const now = clock.now();
    const due: Extension[] = [];
    const lost = new Set<MessageRecord>();
    for (const [record, { receivedAt, visibleAt, isExtended }] of held) {
      if (!isExtended) continue;
      const left = visibleAt - now;
      const seconds = Math.min(visibilitySeconds, MAX_SECONDS - Math.ceil((now - receivedAt) / 1000));
      if (left <= 0) lost.add(record);
      else if (left < visibilityMs * EXTEND_AT_SHARE_LEFT && seconds > 0) {
        const { receiptHandle, eventSourceARN } = record;
        due.push({ record, receiptHandle, eventSourceARN, seconds });
      }
    }
    if (lost.size > 0) {
      for (const record of lost) held.delete(record);
      onExpired(lost);
    }
    if (due.length > 0) {
      extending ??= extendAll(due, now).finally(() => {
        extending = undefined;
      });
    }
  };
  const extendAll = async (due: readonly Extension[], now: number): Promise<void> => {
    const refused = new Set(await extend(due, AbortSignal.timeout(Math.ceil(visibilityMs / 3))));
    for (const one of due) {
      const hold = held.get(one.record);
      if (hold !== undefined && !refused.has(one)) hold.visibleAt = now + 1000 * one.seconds;
    }
  };
  let cancel = clock.after(visibilityMs / LOOKS_PER_VISIBILITY, look);
  return {
    add(records) {
      const receivedAt = clock.now();
      const visibleAt = receivedAt + visibilityMs;
      for (const record of records) held.set(record, { receivedAt, visibleAt, isExtended: true });
    },
    async endExtending(records) {
      for (const record of records) {
        const hold = held.get(record);
        if (hold !== undefined) hold.isExtended = false;
      }
      await extending;
    },
    remove(records) {
      for (const record of records) held.delete(record);
    },
    size: () => held.size,
    stop: () => cancel(),
  };
}

/** A record that stays hidden from others. */
export interface Extension extends QueuedMessage {
  readonly record: MessageRecord;
  /** Whole seconds from now. */
  readonly seconds: number;
}

interface VisibilityActions {
  readonly extend: ActOnMessages<Extension>;
  /** Makes records visible to others at once. */
  readonly handBack: ActOnMessages<MessageRecord>;
}

interface VisibilityActionsOptions {
  readonly sqs: SqsCaller;
  readonly queueUrls: readonly string[];
  readonly onProblem: (error: Error) => void;
}

export function createVisibilityActions(options: VisibilityActionsOptions): VisibilityActions {
  return {
    extend: perQueue<Extension>({
      ...options,
      act: (queueUrl) =>
        createVisibilityChange({ ...options, queueUrl, name: 'heartbeat', secondsOf: ({ seconds }) => seconds }),
    }),
    handBack: perQueue<MessageRecord>({
      ...options,
      act: (queueUrl) => createVisibilityChange({ ...options, queueUrl, name: 'handing back', secondsOf: () => 0 }),
    }),
  };
}
