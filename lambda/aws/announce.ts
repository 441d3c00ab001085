import { SignatureV4 } from '@smithy/signature-v4';
import { messageOf } from '../core/failure.ts';
import { isObject, parseIfJson } from '../core/json.ts';
import type { MessageRecord, Outcome } from '../core/record.ts';
import { createSqsClient, HOST_PATIENCE, Sha256 } from './sqsWire.ts';
import { withoutQuotations } from './telemetry.ts';

/** What others are told: `docs/operations.md` documents it. */
export type Announcement = JobEnded | DeadLetter;

/** A job has ended: `failed` has `code` and `message`, `done` the rest. */
export interface JobEnded {
  readonly event: 'job-ended';
  readonly job: string;
  readonly state: 'done' | 'failed' | 'cancelled';
  /** `s3://bucket/key` of the file. */
  readonly input: string;
  /** `s3://bucket/folder/` of what the job wrote. */
  readonly output: string;
  /** Undefined where it ended before they were known. */
  readonly model?: string | undefined;
  readonly version?: string | undefined;
  readonly rows?: number;
  /** Error results by code. */
  readonly errors?: Readonly<Record<string, number>>;
  readonly failedParts?: number;
  readonly code?: string | undefined;
  readonly message?: string | undefined;
}

/** A message was handed back after its last receive: SQS moves it to the dead letters in place of another. */
export interface DeadLetter {
  readonly event: 'dead-letter';
  readonly messageId: string;
  /** ARN of the request queue. */
  readonly queue: string;
  readonly receives: number;
  readonly code: string;
  /** Without anything that it quotes. */
  readonly message: string;
}

/** @throws Error where it is not told of all */
export type Announce = (announcements: readonly Announcement[]) => Promise<void>;

/** The records that go to the dead letters: handed back, and received as often as their queue allows. */
export function deadLettersIn(
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

/** Both services take so many at once. */
const ENTRIES = 10;
const ANSWER_MS = 4_000;

/**
 * Tells an EventBridge bus or an SNS topic, by the services' own protocols: one call that is made rarely is no reason to
 * load another client. Region and service are those of the ARN.
 *
 * @see https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html
 * @see https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html
 */
export function createAnnounce(arn: string): Announce {
  const [, partition = '', service = '', region = ''] = arn.split(':');
  const isTopic = service === 'sns';
  const { credentials } = createSqsClient(HOST_PATIENCE, { region }).config;
  const signer = new SignatureV4({ credentials, region, service, sha256: Sha256 });
  const own = process.env[isTopic ? 'AWS_ENDPOINT_URL_SNS' : 'AWS_ENDPOINT_URL_EVENTBRIDGE'];
  const domain = partition === 'aws-cn' ? 'amazonaws.com.cn' : 'amazonaws.com';
  const url = new URL(own ?? `https://${service}.${region}.${domain}`);
  const [headers, bodyOf, refusedIn] = isTopic ? TO_TOPICS : TO_BUSES;

  const tell = async (some: readonly Announcement[]): Promise<void> => {
    const request = await signer.sign({
      method: 'POST',
      protocol: url.protocol,
      hostname: url.hostname,
      ...(url.port !== '' && { port: Number(url.port) }),
      path: '/',
      query: {},
      headers: { host: url.host, ...headers },
      body: bodyOf(arn, some),
    });
    const answer = await fetch(url, {
      method: 'POST',
      headers: request.headers,
      body: request.body,
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const text = await answer.text();
    if (!answer.ok || refusedIn(text)) {
      throw new Error(
        `expected ${arn} to take ${some.length} events, got status ${answer.status}: ${text.slice(0, 500)}`,
      );
    }
  };
  return async (announcements) => {
    for (let from = 0; from < announcements.length; from += ENTRIES)
      await tell(announcements.slice(from, from + ENTRIES));
  };
}

type Protocol = readonly [
  headers: Readonly<Record<string, string>>,
  bodyOf: (arn: string, some: readonly Announcement[]) => string,
  /** Whether an answer of 200 says that some were refused. */
  refusedIn: (answer: string) => boolean,
];

const TO_BUSES: Protocol = [
  { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': 'AWSEvents.PutEvents' },
  (arn, some) =>
    JSON.stringify({
      Entries: some.map((one) => ({
        EventBusName: arn,
        Source: 'batchscore',
        DetailType: one.event,
        Detail: JSON.stringify(one),
      })),
    }),
  (answer) => {
    const parsed = parseIfJson(answer);
    return !isObject(parsed) || parsed.FailedEntryCount !== 0;
  },
];

const TO_TOPICS: Protocol = [
  { 'content-type': 'application/x-www-form-urlencoded' },
  (arn, some) => {
    const entries = some.flatMap((one, index): [string, string][] => {
      const member = `PublishBatchRequestEntries.member.${index + 1}`;
      const attribute = `${member}.MessageAttributes.entry.1`;
      return [
        [`${member}.Id`, String(index)],
        [`${member}.Message`, JSON.stringify(one)],
        [`${attribute}.Name`, 'event'],
        [`${attribute}.Value.DataType`, 'String'],
        [`${attribute}.Value.StringValue`, one.event],
      ];
    });
    const head = { Action: 'PublishBatch', Version: '2010-03-31', TopicArn: arn };
    return String(new URLSearchParams([...Object.entries(head), ...entries]));
  },
  (answer) => answer.includes('<BatchResultErrorEntry>') || /<Failed>\s*<member>/.test(answer),
];

/** What of a host tells of its dead letters. Never throws: what is not told of lies in the queue of dead letters all the same. */
export function createDeadLetterWatch(announce: Announce, maxReceives: number, warn: (message: string) => void) {
  return async (outcomes: readonly Outcome[], records: readonly MessageRecord[]): Promise<void> => {
    const dead = deadLettersIn(outcomes, records, maxReceives);
    if (dead.length === 0) return;
    await announce(dead).catch((error: unknown) => warn(`events: ${dead.length} dead letters: ${messageOf(error)}`));
  };
}
