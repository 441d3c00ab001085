import { isObject, type JsonObject, parseIfJson } from './json.ts';
import { POINTER_CLASS } from './record.ts';
import { isBase64 } from './tensor.ts';

/* Values and texts that producers send in place of a request, each with the cure. */

/** @param record the event's first record, or the event itself if a pipe sends records one by one */
type IsEvent = (value: JsonObject, record: JsonObject) => boolean;

const isFrom =
  (source: string): IsEvent =>
  (_, { eventSource, EventSource }) =>
    eventSource === source || EventSource === source;

/**
 * @see https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html
 * @see https://docs.aws.amazon.com/eventbridge/latest/ref/events-structure.html
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
 * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-services.html
 * @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
 */
const OBJECTS: readonly (readonly [is: IsEvent, got: string])[] = [
  [
    ({ Type, TopicArn }) => Type === 'Notification' && TopicArn !== undefined,
    'an envelope of SNS; switch on raw message delivery of its subscription',
  ],
  [
    (value) => 'detail-type' in value && 'source' in value && 'detail' in value,
    'an event of EventBridge; give the target of its rule an input path, such as $.detail',
  ],
  [isFrom('aws:s3'), 'an event of S3; start a job for the files that it names, or send their requests'],
  [
    ({ Event }) => Event === 's3:TestEvent',
    'the test event of S3, sent once when a bucket begins to notify; send requests, or start jobs for its files',
  ],
  [isFrom('aws:kinesis'), 'an event of Kinesis; send what the data of each record encodes'],
  [isFrom('aws:dynamodb'), 'an event of DynamoDB; make a request of each record'],
  [isFrom('aws:sqs'), 'an event of SQS; send the body of each record'],
  [isFrom('aws:sns'), 'an event of SNS; send the Sns.Message of each record'],
  [
    (value) => 'requestContext' in value && ('body' in value || 'headers' in value),
    'an event of API Gateway; send its body alone',
  ],
  [
    (value) => typeof value.specversion === 'string' && 'data_base64' in value,
    'a CloudEvent; send the text that its data_base64 encodes',
  ],
  [(value) => typeof value.specversion === 'string' && 'type' in value, 'a CloudEvent; send its data alone'],
  [
    (value) => 's3BucketName' in value && 's3Key' in value,
    `a pointer to S3 without its class; send ["${POINTER_CLASS}", {"s3BucketName": …, "s3Key": …}]`,
  ],
];

const BASE64_BEGINNING = 64;
const GZIP_MAGIC = [0x1f, 0x8b];

function isBase64Of(text: string, is: (beginning: Buffer) => boolean): boolean {
  return isBase64(text) && is(Buffer.from(text.slice(0, BASE64_BEGINNING), 'base64'));
}

/** Longer texts are not parsed to describe them: their values may take many times their memory. */
const MAX_PARSED = 65_536;

const isJson = (text: string): boolean =>
  text.length <= MAX_PARSED && /^\s*[{[]/.test(text) && parseIfJson(text) !== undefined;

const TEXTS: readonly (readonly [is: (text: string) => boolean, got: string])[] = [
  [(text) => text.startsWith('\uFEFF'), 'a byte order mark in front; write UTF-8 without one'],
  [isJson, 'JSON in a JSON string; encode the request once'],
  [
    (text) => isBase64Of(text, (beginning) => /^\s*[{[]/.test(beginning.toString())),
    'base64; send the text that it encodes',
  ],
  [
    (text) => isBase64Of(text, (beginning) => GZIP_MAGIC.every((byte, index) => beginning[index] === byte)),
    'gzip in base64; send the text that it holds',
  ],
  [
    (text) => /^s3:\/\/\S+$/.test(text),
    `the address of an object; send ["${POINTER_CLASS}", {"s3BucketName": …, "s3Key": …}], or start a job for a file of rows`,
  ],
  [(text) => /^\s*(\[\s*)?\{\s*'/.test(text), 'an object as Python prints it; send json.dumps(…) of it'],
  [(text) => areLinesOfJson(text), 'several lines of JSON; send each as a message, or all as one array'],
];

function areLinesOfJson(text: string): boolean {
  if (text.length > MAX_PARSED) return false;
  const [first = '', second = ''] = text.split(/[\r\n]+/, 2);
  return isJson(first) && isJson(second);
}

/** Describes a parsed value that looks like something else than a request. Undefined if it does not. */
export function lookAlike(value: unknown): string | undefined {
  if (typeof value === 'string') return textLookAlike(value);
  if (!isObject(value)) return undefined;
  const [first] = Array.isArray(value.Records) ? value.Records : [];
  const record = isObject(first) ? first : value;
  return OBJECTS.find(([is]) => is(value, record))?.[1];
}

/** Does the same for a text that is not JSON, or that a JSON string holds. */
export function textLookAlike(text: string): string | undefined {
  return TEXTS.find(([is]) => is(text))?.[1];
}
