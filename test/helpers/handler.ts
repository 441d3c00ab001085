import { readFile } from 'node:fs/promises';
import type { S3Client } from '@aws-sdk/client-s3';
import type { SQSClient } from '@aws-sdk/client-sqs';
import type { SQSBatchResponse, SQSRecord } from 'aws-lambda';
import type { Telemetry } from '../../lambda/aws/telemetry.ts';
import type { Outcome } from '../../lambda/core/record.ts';

import { type Composition, compose } from '../../lambda/hosts/compose.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { createHandler, type ScoringHandler } from '../../lambda/hosts/createHandler.ts';
import { lookupModel } from './onnxModels.ts';
import { afterThisTest, modelsDirectory, type RepositoryFiles } from './openModels.ts';
import { lambdaContext, sqsEvent } from './sqsEvents.ts';

const DIGITS = new URL('../../models/digits/', import.meta.url);

export interface Sample {
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

export interface RecordingTelemetry extends Telemetry {
  readonly problems: readonly unknown[];
  readonly outcomesOfInvocations: readonly (readonly Outcome[])[];
}

export function recordingTelemetry(): RecordingTelemetry {
  const problems: unknown[] = [];
  const outcomesOfInvocations: (readonly Outcome[])[] = [];
  return {
    problems,
    outcomesOfInvocations,
    observer: {
      microBatch: () => {},
      decoded: () => {},
      checked: () => {},
      batchMismatch: () => {},
      written: () => {},
      runAbandoned: () => {},
      problem: (error) => void problems.push(error),
    },
    hostEnds: () => {},
    outcomes: (outcomes) => void outcomesOfInvocations.push(outcomes),
    middlewares: [],
  };
}

export interface Deployment {
  readonly sqs: SQSClient;
  readonly requestQueueUrl: string;
  readonly resultQueueUrl: string;
}

export interface CompositionOptions {
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
  const clients = { sqs: deployment.sqs, dynamodb: notDeployed, s3: () => s3 ?? notDeployed() };
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

export interface DeployedHandler {
  readonly handler: ScoringHandler;
  readonly composition: Composition;
  readonly telemetry: RecordingTelemetry;
}

/**
 * The real handler in this process, with the digits model and a lookup table.
 *
 * ```ts
 * const where = { sqs: server.client(), requestQueueUrl: server.queue(), resultQueueUrl: server.queue() };
 * const { handler, telemetry } = await deployed(where);
 * expect(await invoke(handler, [sqsRecord(lookupRequest(0))])).toEqual({ batchItemFailures: [] });
 * ```
 */
export async function deployed(deployment: Deployment): Promise<DeployedHandler> {
  const telemetry = recordingTelemetry();
  const composition = await composed(deployment, telemetry);
  return { handler: createHandler(composition), composition, telemetry };
}

export function failuresOf(...records: readonly SQSRecord[]): SQSBatchResponse {
  return { batchItemFailures: records.map(({ messageId }) => ({ itemIdentifier: messageId })) };
}
