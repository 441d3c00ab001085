import { createHash, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { S3Client } from '@aws-sdk/client-s3';
import type { Message, SQSClient } from '@aws-sdk/client-sqs';
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';
import type { Telemetry } from '../../lambda/aws/telemetry.ts';
import { SILENT } from '../../lambda/core/observer.ts';
import type { Outcome } from '../../lambda/core/record.ts';
import { type Composition, compose } from '../../lambda/hosts/compose.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { createHandler, type ScoringHandler } from '../../lambda/hosts/createHandler.ts';
import { lookupModel } from './onnxModels.ts';
import { afterThisTest, modelsDirectory, type RepositoryFiles } from './openModels.ts';

const DIGITS = new URL('../../models/digits/', import.meta.url);

interface Sample {
  readonly pixels: readonly number[];
  readonly label: number;
}

/** The first `count` samples that the digits model was not trained on. */
export async function digitSamples(count: number): Promise<Sample[]> {
  const lines = (await readFile(new URL('held-out.jsonl', DIGITS), 'utf8')).trimEnd().split('\n');
  return lines.slice(0, count).map((line): Sample => JSON.parse(line));
}

/** A request to read one digit. */
export function digitRequest({ pixels }: Sample, id?: string): Record<string, unknown> {
  const inputs = [{ name: 'image', datatype: 'FP32', shape: [1, 64], data: pixels }];
  return id === undefined ? { inputs } : { id, inputs };
}

/** A request to the model `lookup`, which holds three values: an index beyond them makes its run fail. */
export function lookupRequest(index: number): Record<string, unknown> {
  return { model_name: 'lookup', inputs: [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }] };
}

export function recordingTelemetry() {
  const problems: unknown[] = [];
  const outcomesOfInvocations: (readonly Outcome[])[] = [];
  return {
    problems,
    outcomesOfInvocations,
    observer: { ...SILENT, problem: (error: unknown) => void problems.push(error) },
    outcomes: (outcomes: readonly Outcome[]) => void outcomesOfInvocations.push(outcomes),
    middlewares: [],
  };
}

export interface Deployment {
  readonly sqs: SQSClient;
  readonly requestQueueUrl: string;
  readonly resultQueueUrl: string;
}

interface CompositionOptions {
  /** @default the real digits model, the default one, and a lookup table */
  readonly models?: RepositoryFiles;
  /** What the environment says besides. */
  readonly variables?: Readonly<Record<string, string>>;
  readonly s3?: S3Client;
}

/** The real composition over models of a test's own; closed after the test. */
export async function composed(
  deployment: Deployment,
  telemetry: Telemetry,
  { models, variables, s3 }: CompositionOptions = {},
): Promise<Composition> {
  const config = loadConfig({
    BATCHSCORE_MODELS_DIR: await modelsDirectory(models ?? (await digitsAndLookup())),
    ...(models === undefined && { BATCHSCORE_DEFAULT_MODEL: 'digits' }),
    BATCHSCORE_REQUEST_QUEUE_URL: deployment.requestQueueUrl,
    BATCHSCORE_RESULT_QUEUE_URL: deployment.resultQueueUrl,
    ...variables,
  });
  const clients = { sqs: deployment.sqs, s3: () => s3 ?? notDeployed() };
  const composition = await compose(config, { clients, telemetry, warn: () => {} });
  afterThisTest(() => composition.close());
  return composition;
}

async function digitsAndLookup(): Promise<RepositoryFiles> {
  return {
    'digits/1/model.onnx': await readFile(new URL('1/model.onnx', DIGITS)),
    'lookup/1/model.onnx': lookupModel(),
    'lookup/config.json': { sessionOptions: { logSeverityLevel: 4 } },
  };
}

function notDeployed(): never {
  throw new Error('expected no client of a store that results do not go to');
}

/** Invokes a handler as Lambda does: with an event and a context of their own. */
export function invoke(handler: ScoringHandler, records: SQSRecord[], remainingMs?: number): Promise<SQSBatchResponse> {
  return handler(sqsEvent(records), lambdaContext(remainingMs));
}

/**
 * The real handler in this process, with the digits model and a lookup table.
 * @example const where = { sqs: server.client(), requestQueueUrl: server.queue(), resultQueueUrl: server.queue() };
 *   const { handler, telemetry } = await deployed(where);
 *   expect(await invoke(handler, [sqsRecord(lookupRequest(0))])).toEqual({ batchItemFailures: [] });
 */
export async function deployed(deployment: Deployment, options?: CompositionOptions) {
  const telemetry = recordingTelemetry();
  const composition = await composed(deployment, telemetry, options);
  return { handler: createHandler(composition), composition, telemetry };
}

export function failuresOf(...records: readonly SQSRecord[]): SQSBatchResponse {
  return { batchItemFailures: records.map(({ messageId }) => ({ itemIdentifier: messageId })) };
}

const QUEUE_ARN = 'arn:aws:sqs:eu-central-1:123456789012:requests';

/** A record as Lambda hands it over, with every attribute. A `body` that is not a string is sent as JSON. */
export function sqsRecord(body: unknown, overrides: Partial<SQSRecord> = {}): SQSRecord {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return {
    messageId: randomUUID(),
    receiptHandle: 'AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a',
    body: text,
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: '1545082649183',
      SenderId: 'AIDAIENQZJOLO23YVJ4VO',
      ApproximateFirstReceiveTimestamp: '1545082649185',
    },
    messageAttributes: {},
    md5OfBody: createHash('md5').update(text).digest('hex'),
    eventSource: 'aws:sqs',
    eventSourceARN: QUEUE_ARN,
    awsRegion: 'eu-central-1',
    ...overrides,
  };
}

/** The record of a message that was really received from a queue. */
export function recordOfMessage(
  { MessageId = '', ReceiptHandle = '', Body = '', Attributes }: Message,
  queueUrl: string,
): SQSRecord {
  const eventSourceARN = `arn:aws:sqs:us-east-1:000000000000:${queueUrl.slice(queueUrl.lastIndexOf('/') + 1)}`;
  const record = sqsRecord(Body, { messageId: MessageId, receiptHandle: ReceiptHandle, eventSourceARN });
  const { ApproximateReceiveCount = '1' } = Attributes ?? {};
  return { ...record, attributes: { ...record.attributes, ApproximateReceiveCount } };
}

export function sqsEvent(Records: SQSRecord[]): SQSEvent {
  return { Records };
}

/** The context of an invocation that has `remainingMs` left. */
export function lambdaContext(remainingMs = 30_000): Context {
  return createLambdaContext(Date.now() + remainingMs);
}
