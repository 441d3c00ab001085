import type { ActOnMessages, Extension } from '../aws/requestQueue.ts';
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
}

export function createVisibilityLeases({
  visibilitySeconds,
  extend,
  onExpired,
  clock = SYSTEM_CLOCK,
}: VisibilityLeasesOptions): VisibilityLeases {
  const visibilityMs = 1000 * visibilitySeconds;
  const held = new Map<MessageRecord, Hold>();
  let extending = false;

  const look = (): void => {
    cancel = clock.after(visibilityMs / LOOKS_PER_VISIBILITY, look);
    const now = clock.now();
    const due: Extension[] = [];
    const lost = new Set<MessageRecord>();
    for (const [record, { receivedAt, visibleAt }] of held) {
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
    if (due.length > 0 && !extending) void extendAll(due, now);
  };
  const extendAll = async (due: readonly Extension[], now: number): Promise<void> => {
    extending = true;
    const refused = new Set(await extend(due, AbortSignal.timeout(Math.ceil(visibilityMs / 3))));
    for (const one of due) {
      const hold = held.get(one.record);
      if (hold !== undefined && !refused.has(one)) hold.visibleAt = now + 1000 * one.seconds;
    }
    extending = false;
  };
  let cancel = clock.after(visibilityMs / LOOKS_PER_VISIBILITY, look);
  return {
    add(records) {
      const now = clock.now();
      for (const record of records) held.set(record, { receivedAt: now, visibleAt: now + visibilityMs });
    },
    remove(records) {
      for (const record of records) held.delete(record);
    },
    size: () => held.size,
    stop: () => cancel(),
  };
}
