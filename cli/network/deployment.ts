import { readFile } from 'node:fs/promises';
import type { S3Client } from '@aws-sdk/client-s3';
import { z } from 'zod';
import { Batchscore } from '../../client/index.ts';
import { CLIENT_PATIENCE, createDynamoDbClient, createS3Client, createSqsClient } from '../../lambda/aws/awsClients.ts';
import { createSfnClient } from '../../lambda/aws/jobExecutions.ts';
import { JOB_RANGES } from '../../lambda/core/limits.ts';

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

const STACK_HELP = `  --stack FILE            where the deployment is, as JSON: the first line that npm run dev prints,
                          or the file that cdk deploy --outputs-file writes`;

export const DEPLOYMENT_HELP = `${STACK_HELP}
  --request-queue URL     this and the following replace what the stack FILE says, or stand
                          without one; of several shards the URLs with commas between them
  --result-queue URL
  --result-table NAME
  --payload-bucket NAME
  --payload-prefix PREFIX what the deployment's keys in that bucket begin with, if it shares the bucket
  --region REGION`;

/** Those of the commands of jobs. */
export const JOB_DEPLOYMENT_OPTIONS = {
  stack: { type: 'string' },
  'job-state-machine': { type: 'string' },
  'job-bucket': { type: 'string' },
  'job-input-prefix': { type: 'string' },
  'job-output-prefix': { type: 'string' },
  region: { type: 'string' },
} as const;

export const JOB_DEPLOYMENT_HELP = `${STACK_HELP}
  --job-state-machine ARN this and the following replace what the stack FILE says, or stand
                          without one
  --job-bucket NAME
  --job-input-prefix PREFIX
  --job-output-prefix PREFIX
  --region REGION`;

type Option = keyof typeof DEPLOYMENT_OPTIONS | keyof typeof JOB_DEPLOYMENT_OPTIONS;
type DeploymentValues = { readonly [K in Option]?: string | undefined };

/** What the options replace in the stack FILE. */
const REPLACED = {
  'request-queue': 'requestQueueUrl',
  'result-queue': 'resultQueueUrl',
  'result-table': 'resultTable',
  'payload-bucket': 'payloadBucket',
  'payload-prefix': 'payloadPrefix',
  'job-state-machine': 'jobStateMachine',
  'job-bucket': 'jobBucket',
  'job-input-prefix': 'jobInputPrefix',
  'job-output-prefix': 'jobOutputPrefix',
  region: 'region',
} as const satisfies Record<Exclude<Option, 'stack'>, keyof Stack>;

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

/** What commands of jobs talk to. */
interface JobConnection extends Connection {
  readonly bucket: string;
  /** Most calls at a time. */
  readonly concurrency: number;
  readonly s3: S3Client;
}

/** @throws UsageError when it is not said where jobs are, or FILE cannot be read */
export async function connectToJobs(values: DeploymentValues): Promise<JobConnection> {
  const stack = await deploymentOf(values);
  const { jobStateMachine, jobBucket: bucket } = stack;
  if (jobStateMachine === undefined || bucket === undefined) {
    throw notSaid(values.stack, 'jobStateMachine and jobBucket', '--job-state-machine ARN and --job-bucket NAME');
  }
  return { ...connect(stack), bucket, concurrency: Number(stack.jobConcurrency ?? JOB_RANGES.concurrency.default) };
}

async function deploymentOf(values: DeploymentValues): Promise<Stack> {
  const stack = values.stack === undefined ? {} : await readStack(values.stack);
  const replaced = Object.entries(REPLACED).map(([option, key]) => [key, values[option as Option] ?? stack[key]]);
  return { ...stack, ...Object.fromEntries(replaced) };
}

function connect(stack: Stack): Connection & Pick<JobConnection, 's3'> {
  const { endpoint, dynamodbEndpoint: _, s3Endpoint: __, sfnEndpoint: ___, jobConcurrency, ...where } = stack;
  const clients = endpoint === undefined ? clientsOnAws(stack) : localClients(stack, endpoint);
  const client = new Batchscore({
    ...where,
    ...clients,
    ...(jobConcurrency !== undefined && { jobConcurrency: Number(jobConcurrency) }),
  });
  const close = async (): Promise<void> => {
    await client.close();
    for (const own of Object.values(clients)) own.destroy();
  };
  return { client, close, s3: clients.s3 };
}

/** The client makes the others. */
function clientsOnAws({ region }: Stack) {
  return { s3: createS3Client(CLIENT_PATIENCE, { region, maxAttempts: 3 }) };
}

/** A stack that names its endpoint is a local one: any credentials do. */
function localClients({ region = 'us-east-1', dynamodbEndpoint, s3Endpoint, sfnEndpoint }: Stack, endpoint: string) {
  const local = { region, credentials: { accessKeyId: 'local', secretAccessKey: 'local' } };
  return {
    sqs: createSqsClient(CLIENT_PATIENCE, { ...local, endpoint, useQueueUrlAsEndpoint: false }),
    dynamodb: createDynamoDbClient(CLIENT_PATIENCE, { ...local, endpoint: dynamodbEndpoint ?? endpoint }),
    s3: createS3Client(CLIENT_PATIENCE, { ...local, endpoint: s3Endpoint ?? endpoint, forcePathStyle: true }),
    sfn: createSfnClient({ ...local, endpoint: sfnEndpoint ?? endpoint }),
  };
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
