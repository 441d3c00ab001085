import { messageOf } from '../core/failure.ts';
import type { MessageRecord, Outcome } from '../core/record.ts';
import { retryRemaining } from './sendBatches.ts';
import { ATTEMPTS, answeredWithin, HOST_PATIENCE } from './sqsWire.ts';
import { withoutQuotations } from './telemetry.ts';

/** Event for the deployer's bus or topic. `docs/operations.md` documents it. */
export type Announcement = JobEnded | DeadLetter;

/** End of a job. `failed` has `code` and `message`, `done` has the other fields. */
export interface JobEnded {
  readonly event: 'job-ended';
  readonly job: string;
  readonly state: 'done' | 'failed' | 'cancelled';
  /** `s3://bucket/key` of the file. */
  readonly input: string;
  /** `s3://bucket/folder/` of the results. */
  readonly output: string;
  /** Undefined if the job ended before they were known. */
  readonly model?: string | undefined;
  readonly version?: string | undefined;
  readonly rows?: number;
  /** Number of error results by code. */
  readonly errors?: Readonly<Record<string, number>>;
  readonly failedParts?: number;
  readonly code?: string | undefined;
  readonly message?: string | undefined;
}

/** Message that was handed back after its last receive. SQS moves it to the dead-letter queue. */
interface DeadLetter {
  readonly event: 'dead-letter';
  readonly messageId: string;
  readonly queue: string;
  readonly receives: number;
  readonly code: string;
  /** Without quotations of the request. */
  readonly message: string;
}

/** Publishes announcements. @throws Error if some are not published */
export type Announce = (announcements: readonly Announcement[]) => Promise<void>;

function deadLettersIn(
  outcomes: readonly Outcome[],
  records: readonly MessageRecord[],
  maxReceives: number,
): DeadLetter[] {
  return records.flatMap(({ messageId, eventSourceARN, attributes }, index) => {
    const outcome = outcomes[index];
    const receives = Number(attributes.ApproximateReceiveCount);
    if (outcome?.status !== 'retry' || !(receives >= maxReceives)) return [];
    const { code, message } = outcome.failure;
    const about = { queue: eventSourceARN, receives, code, message: withoutQuotations(message) };
    return [{ event: 'dead-letter' as const, messageId, ...about }];
  });
}

/** Maximum number of entries in one call of either service. */
const ENTRIES = 10;

/** Publishes to an EventBridge bus or an SNS topic, in the region of its ARN. The client is loaded on first use. */
export function createAnnounce(arn: string): Announce {
  const [, , service, region = ''] = arn.split(':');
  let telling: Promise<(some: readonly Announcement[]) => Promise<readonly Refused[]>> | undefined;
  return async (announcements) => {
    telling ??= service === 'sns' ? toTopic(arn, region) : toBus(arn, region);
    const tell = await telling;
    let refused: Refused[] = [];
    const attempt = async (left: readonly Announcement[]): Promise<Announcement[]> => {
      refused = [];
      for (let from = 0; from < left.length; from += ENTRIES) {
        refused.push(...(await tell(left.slice(from, from + ENTRIES))));
      }
      return refused.map(({ one }) => one);
    };
    const left = await retryRemaining(announcements, attempt, new AbortController().signal, { attempts: 2 });
    if (left.length === 0) return;
    const why = JSON.stringify([...new Set(refused.map(({ code }) => code))]);
    throw new Error(`expected ${arn} to take ${announcements.length} events, it refused ${left.length}: ${why}`);
  };
}

interface Refused {
  readonly one: Announcement;
  readonly code: string;
}

async function toBus(arn: string, region: string) {
  const { EventBridgeClient, PutEventsCommand } = await import('@aws-sdk/client-eventbridge');
  const client = new EventBridgeClient({ ...ATTEMPTS, region, requestHandler: answeredWithin(HOST_PATIENCE) });
  return async (some: readonly Announcement[]): Promise<readonly Refused[]> => {
    const Entries = some.map((one) => ({
      EventBusName: arn,
      Source: 'batchscore',
      DetailType: one.event,
      Detail: JSON.stringify(one),
    }));
    const { Entries: answers = [] } = await client.send(new PutEventsCommand({ Entries }));
    return some.flatMap((one, index) => {
      const code = answers[index]?.ErrorCode;
      return code === undefined ? [] : [{ one, code }];
    });
  };
}

async function toTopic(arn: string, region: string) {
  const { PublishBatchCommand, SNSClient } = await import('@aws-sdk/client-sns');
  const client = new SNSClient({ ...ATTEMPTS, region, requestHandler: answeredWithin(HOST_PATIENCE) });
  return async (some: readonly Announcement[]): Promise<readonly Refused[]> => {
    const PublishBatchRequestEntries = some.map((one, index) => ({
      Id: String(index),
      Message: JSON.stringify(one),
      MessageAttributes: { event: { DataType: 'String', StringValue: one.event } },
    }));
    const { Failed = [] } = await client.send(new PublishBatchCommand({ TopicArn: arn, PublishBatchRequestEntries }));
    const codes = new Map(Failed.map(({ Id, Code = 'unknown' }) => [Id, Code]));
    return some.flatMap((one, index) => {
      const code = codes.get(String(index));
      return code === undefined ? [] : [{ one, code }];
    });
  };
}

/** Announces a host's dead letters. It never throws, because the messages are in the dead-letter queue anyway. */
export function createDeadLetterWatch(announce: Announce, maxReceives: number, warn: (message: string) => void) {
  return async (outcomes: readonly Outcome[], records: readonly MessageRecord[]): Promise<void> => {
    const dead = deadLettersIn(outcomes, records, maxReceives);
    if (dead.length === 0) return;
    await announce(dead).catch((error: unknown) => warn(`events: ${dead.length} dead letters: ${messageOf(error)}`));
  };
}
