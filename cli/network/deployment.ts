import { readFile } from 'node:fs/promises';
import type { S3Client } from '@aws-sdk/client-s3';
import { z } from 'zod';
import { Batchscore } from '../../client/index.ts';
import { CLIENT_PATIENCE, createDynamoDbClient, createS3Client, createSqsClient } from '../../lambda/aws/awsClients.ts';
import { createSfnClient } from '../../lambda/aws/jobExecutions.ts';
import { JOB_PREFIXES, JOB_RANGES } from '../../lambda/core/limits.ts';

import { UsageError } from '../arguments.ts';
import { systemReason } from '../textFiles.ts';

/** The options that say which deployment a command talks to. */
export const DEPLOYMENT_OPTIONS = {
  stack: { type: 'string' },
  'request-queue': { type: 'string' },
  'result-queue': { type: 'string' },
  'result-table': { type: 'string' },
  'payload-bucket': { type: 'string' },
  'payload-prefix': { type: 'string' },
  region: { type: 'string' },
} as const;

export const DEPLOYMENT_HELP = `  --stack FILE            where the deployment is, as JSON: the first line that npm run dev prints,
                          or the file that cdk deploy --outputs-file writes
  --request-queue URL     this and the following replace what the stack FILE says, or stand
                          without one; of several shards the URLs with commas between them
  --result-queue URL
  --result-table NAME
  --payload-bucket NAME
  --payload-prefix PREFIX what the deployment's keys in that bucket begin with, if it shares the bucket
  --region REGION`;

type DeploymentValues = { readonly [K in keyof typeof DEPLOYMENT_OPTIONS]?: string | undefined };

interface Connection {
  readonly client: Batchscore;
  close(): Promise<void>;
}

/**
 * Connects to the request queue, and says whether it is a FIFO queue.
 *
 * @throws UsageError when it is not said where the request queue is, or FILE cannot be read
 */
export async function connectToSubmit(values: DeploymentValues): Promise<Connection & { readonly isFifo: boolean }> {
  const stack = await deploymentOf(values);
  if (stack.requestQueueUrl === undefined) throw notSaid(values.stack, 'requestQueueUrl', '--request-queue URL');
  return { ...connect(stack), isFifo: stack.requestQueueUrl.endsWith('.fifo') };
}

/** @throws UsageError when it is not said where results are, or FILE cannot be read */
export async function connectToCollect(values: DeploymentValues): Promise<Connection> {
  const stack = await deploymentOf(values);
  if (stack.resultTable === undefined && stack.resultQueueUrl === undefined) {
    throw notSaid(values.stack, 'resultTable or resultQueueUrl', '--result-table NAME or --result-queue URL');
  }
  return connect(stack);
}

async function deploymentOf(values: DeploymentValues): Promise<Stack> {
  const stack = values.stack === undefined ? {} : await readStack(values.stack);
  return {
    ...stack,
    requestQueueUrl: values['request-queue'] ?? stack.requestQueueUrl,
    resultQueueUrl: values['result-queue'] ?? stack.resultQueueUrl,
    resultTable: values['result-table'] ?? stack.resultTable,
    payloadBucket: values['payload-bucket'] ?? stack.payloadBucket,
    payloadPrefix: values['payload-prefix'] ?? stack.payloadPrefix,
    region: values.region ?? stack.region,
  };
}

function connect(stack: Stack): Connection {
  const { requestQueueUrl, resultQueueUrl, resultTable, payloadBucket, payloadPrefix, region, endpoint } = stack;
  const clients = endpoint === undefined ? undefined : localClients(stack, endpoint);
  const where = { requestQueueUrl, resultQueueUrl, resultTable, payloadBucket, payloadPrefix, region };
  const client = new Batchscore({ ...where, ...clients });
  const close = async (): Promise<void> => {
    await client.close();
    for (const own of Object.values(clients ?? {})) own.destroy();
  };
  return { client, close };
}

/** Those of the commands of jobs. */
export const JOB_DEPLOYMENT_OPTIONS = {
  stack: { type: 'string' },
  'job-state-machine': { type: 'string' },
  'job-bucket': { type: 'string' },
  'job-input-prefix': { type: 'string' },
  'job-output-prefix': { type: 'string' },
  region: { type: 'string' },
} as const;

export const JOB_DEPLOYMENT_HELP = `  --stack FILE            where the deployment is, as JSON: the first line that npm run dev prints,
                          or the file that cdk deploy --outputs-file writes
  --job-state-machine ARN this and the following replace what the stack FILE says, or stand
                          without one
  --job-bucket NAME
  --job-input-prefix PREFIX
  --job-output-prefix PREFIX
  --region REGION`;

/** What commands of jobs talk to. */
interface JobConnection extends Connection {
  readonly bucket: string;
  readonly outputPrefix: string;
  /** Most calls at a time. */
  readonly concurrency: number;
  readonly s3: S3Client;
}

type JobValues = { readonly [K in keyof typeof JOB_DEPLOYMENT_OPTIONS]?: string | undefined };

/** @throws UsageError when it is not said where jobs are, or FILE cannot be read */
export async function connectToJobs(values: JobValues): Promise<JobConnection> {
  const stack = values.stack === undefined ? {} : await readStack(values.stack);
  const jobStateMachine = values['job-state-machine'] ?? stack.jobStateMachine;
  const jobBucket = values['job-bucket'] ?? stack.jobBucket;
  const jobOutputPrefix = values['job-output-prefix'] ?? stack.jobOutputPrefix ?? JOB_PREFIXES.output;
  const jobInputPrefix = values['job-input-prefix'] ?? stack.jobInputPrefix ?? JOB_PREFIXES.input;
  const jobConcurrency = Number(stack.jobConcurrency ?? JOB_RANGES.concurrency.default);
  const region = values.region ?? stack.region;
  if (jobStateMachine === undefined || jobBucket === undefined) {
    throw notSaid(values.stack, 'jobStateMachine and jobBucket', '--job-state-machine ARN and --job-bucket NAME');
  }
  const { endpoint, sfnEndpoint } = stack;
  const local = endpoint === undefined ? undefined : localClients(stack, endpoint);
  const s3 = local?.s3 ?? createS3Client(CLIENT_PATIENCE, { region, maxAttempts: 3 });
  const localSfn = { region, endpoint: sfnEndpoint, credentials: { accessKeyId: 'local', secretAccessKey: 'local' } };
  const sfn = createSfnClient(sfnEndpoint === undefined ? { region } : localSfn);
  const places = { jobStateMachine, jobBucket, jobInputPrefix, jobOutputPrefix, jobConcurrency };
  const client = new Batchscore({ ...places, region, s3, sfn });
  const close = async (): Promise<void> => {
    await client.close();
    for (const own of [...Object.values(local ?? {}), s3, sfn]) own.destroy();
  };
  return { client, close, bucket: jobBucket, outputPrefix: jobOutputPrefix, concurrency: jobConcurrency, s3 };
}

const text = z.string().min(1).optional();

/** What FILE may say; other keys are for others. */
const STACK = z.object({
  requestQueueUrl: text,
  resultQueueUrl: text,
  resultTable: text,
  payloadBucket: text,
  payloadPrefix: text,
  region: text,
  endpoint: text,
  dynamodbEndpoint: text,
  s3Endpoint: text,
  jobStateMachine: text,
  jobBucket: text,
  jobInputPrefix: text,
  jobOutputPrefix: text,
  jobConcurrency: text,
  sfnEndpoint: text,
});

const OUTPUTS = z.record(z.string(), STACK);

type Stack = z.infer<typeof STACK>;
/** @throws UsageError when the file of `--stack` cannot be read, or holds none or several */
async function readStack(file: string): Promise<Stack> {
  try {
    return deploymentIn(parseFile(await readFile(file, 'utf8')));
  } catch (cause) {
    const reason = systemReason(cause);
    if (reason !== undefined) {
      throw new UsageError(`--stack: ${file}: expected a file, got: ${reason}; check the path`, { cause });
    }
    throw new UsageError(
      `--stack: expected ${file} to hold one deployment, as the JSON line that npm run dev prints ` +
        'or the file that cdk deploy --outputs-file writes',
      { cause },
    );
  }
}

/** npm run prints a banner of its own before the line; an outputs file is one object on many lines. */
function parseFile(text: string): unknown {
  const line = text.split('\n').find((one) => one.startsWith('{')) ?? '';
  return JSON.parse(line.trimEnd() === '{' ? text : line);
}

/** An outputs file has the outputs of each stack under its name. */
function deploymentIn(content: unknown): Stack {
  const whole = STACK.parse(content);
  const outputs = OUTPUTS.safeParse(content).data ?? {};
  const [deployment, another] = Object.values(outputs).filter((stack) => stack.requestQueueUrl !== undefined);
  if (another !== undefined) throw new Error('expected the outputs of one deployment, got several');
  return deployment ?? whole;
}

function notSaid(stack: string | undefined, key: string, options: string): UsageError {
  if (stack === undefined) return new UsageError(`expected --stack FILE or ${options}, got none`);
  return new UsageError(`--stack: expected ${stack} to name ${key}, it does not; name another, or give ${options}`);
}

/** A stack that names its endpoint is a local one: any credentials do. */
function localClients({ region = 'us-east-1', dynamodbEndpoint, s3Endpoint }: Stack, endpoint: string) {
  const local = { region, credentials: { accessKeyId: 'local', secretAccessKey: 'local' } };
  return {
    sqs: createSqsClient(CLIENT_PATIENCE, { ...local, endpoint, useQueueUrlAsEndpoint: false }),
    dynamodb: createDynamoDbClient(CLIENT_PATIENCE, { ...local, endpoint: dynamodbEndpoint ?? endpoint }),
    s3: createS3Client(CLIENT_PATIENCE, { ...local, endpoint: s3Endpoint ?? endpoint, forcePathStyle: true }),
  };
}
