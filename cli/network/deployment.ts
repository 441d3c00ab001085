import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createConnection } from 'node:net';
import type { S3Client } from '@aws-sdk/client-s3';
import { GetQueueAttributesCommand, type SQSClient } from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { SILENT } from '../../client/clientOptions.ts';
import { Batchscore, type BatchscoreOptions } from '../../client/index.ts';
import { createDynamoDbClient, createS3Client } from '../../lambda/aws/awsClients.ts';
import { describeError } from '../../lambda/aws/awsError.ts';
import { createSfnClient } from '../../lambda/aws/jobExecutions.ts';
import { CLIENT_PATIENCE, createSqsClient } from '../../lambda/aws/sqsWire.ts';
import { messageOf } from '../../lambda/core/failure.ts';
import { parseIfJson } from '../../lambda/core/json.ts';
import { IN_OUR_WORDS, problemsIn } from '../../lambda/core/wrongValue.ts';
import { UsageError, type Values } from '../arguments.ts';
import { systemReason } from '../textFiles.ts';
import type { Queue } from './idsFile.ts';

/** Keys of the stack FILE by the options that replace them. */
const KEYS = {
  'request-queue': 'requestQueueUrl',
  'result-queue': 'resultQueueUrl',
  'result-table': 'resultTable',
  'payload-bucket': 'payloadBucket',
  'payload-prefix': 'payloadPrefix',
  region: 'region',
} as const;
const JOB_KEYS = {
  'job-state-machine': 'jobStateMachine',
  'job-bucket': 'jobBucket',
  'job-input-prefix': 'jobInputPrefix',
  'job-output-prefix': 'jobOutputPrefix',
  region: 'region',
} as const;

export const DEPLOYMENT_OPTIONS = optionsFor(KEYS);
export const JOB_DEPLOYMENT_OPTIONS = optionsFor(JOB_KEYS);

function optionsFor<Name extends string>(keys: Readonly<Record<Name, keyof Stack>>) {
  const options = ['stack', ...Object.keys(keys)].map((name) => [name, { type: 'string' }]);
  return Object.fromEntries(options) as Readonly<Record<Name | 'stack', { readonly type: 'string' }>>;
}

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

export const JOB_DEPLOYMENT_HELP = `${STACK_HELP}
  --job-state-machine ARN this and the following replace what the stack FILE says, or stand
                          without one
  --job-bucket NAME
  --job-input-prefix PREFIX
  --job-output-prefix PREFIX
  --region REGION`;

const REPLACED = Object.entries({ ...KEYS, ...JOB_KEYS });

type DeploymentValues = Partial<Values<typeof DEPLOYMENT_OPTIONS & typeof JOB_DEPLOYMENT_OPTIONS>>;

/**
 * Connects to the request queue, and returns whether it is a FIFO queue.
 *
 * @throws UsageError if the request queue is not given, or FILE cannot be read
 */
export async function connectToSubmit(
  values: DeploymentValues & { readonly urgent?: boolean },
  requestsPerMessage?: number,
) {
  const stack = await deploymentOf(values);
  if (values.urgent && stack.urgentQueueUrl === undefined) {
    throw notSaid(values.stack, 'urgentQueueUrl');
  }
  if (stack.requestQueueUrl === undefined) throw notSaid(values.stack, 'requestQueueUrl', '--request-queue URL');
  const isFifo = stack.requestQueueUrl.endsWith('.fifo');
  return { ...(await connect(stack, values, { requestsPerMessage })), isFifo };
}

/**
 * @param onUnclaimed takes results of other IDs, which are removed from a FIFO queue because they lock their message
 * groups
 * @throws UsageError if neither a result table nor a result queue is given, or FILE cannot be read
 */
export async function connectToCollect(
  values: DeploymentValues,
  onUnclaimed: NonNullable<BatchscoreOptions['onUnclaimed']>,
) {
  const stack = await deploymentOf(values);
  if (stack.resultTable === undefined && stack.resultQueueUrl === undefined) {
    throw notSaid(values.stack, 'resultTable or resultQueueUrl', '--result-table NAME or --result-queue URL');
  }
  return connect(stack, values, stack.resultQueueUrl?.endsWith('.fifo') ? { onUnclaimed } : {});
}

/** @throws UsageError if the jobs' addresses are not given, or FILE cannot be read */
export async function connectToJobs(values: DeploymentValues) {
  const stack = await deploymentOf(values);
  const { jobStateMachine, jobBucket: bucket } = stack;
  if (jobStateMachine === undefined || bucket === undefined) {
    throw notSaid(values.stack, 'jobStateMachine and jobBucket', '--job-state-machine ARN and --job-bucket NAME');
  }
  return { ...(await connect(stack, values)), bucket };
}

async function deploymentOf(values: DeploymentValues): Promise<Stack> {
  const stack = values.stack === undefined ? {} : await readStack(values.stack);
  const replaced = REPLACED.map(([option, key]) => [key, values[option as keyof DeploymentValues] ?? stack[key]]);
  const deployment: Stack = { ...stack, ...Object.fromEntries(replaced) };
  refuseOtherQueue('--request-queue', 'request', values['request-queue'], {
    result: deployment.resultQueueUrl,
    'dead-letter': deployment.deadLetterQueueUrl,
  });
  refuseOtherQueue('--result-queue', 'result', values['result-queue'], {
    request: deployment.requestQueueUrl,
    'dead-letter': deployment.deadLetterQueueUrl,
  });
  return deployment;
}

/** @throws UsageError if one queue is given for another */
function refuseOtherQueue(
  option: string,
  wanted: string,
  given: string | undefined,
  others: Readonly<Record<string, string | undefined>>,
): void {
  const [other] = Object.entries(others).find(([, url]) => url !== undefined && url === given) ?? [];
  if (other === undefined) return;
  throw new UsageError(`${option}: expected the ${wanted} queue, got the ${other} queue ${given}; give the other URL`);
}

async function connect(
  stack: Stack,
  values: DeploymentValues,
  options: Pick<BatchscoreOptions, 'onUnclaimed' | 'requestsPerMessage'> = {},
) {
  const { endpoint, dynamodbEndpoint, s3Endpoint, sfnEndpoint, deadLetterQueueUrl, jobConcurrency, ...where } = stack;
  const clients = endpoint === undefined ? clientsOnAws(stack) : localClients(stack, endpoint);
  const client = clientWith(values, {
    ...where,
    ...clients,
    ...options,
    ...(jobConcurrency !== undefined && { jobConcurrency: Number(jobConcurrency) }),
  });
  if (endpoint === undefined) await assertCredentials(clients.s3, NONE_FOR_DEV);
  else await assertListening(endpoint);
  const requests = stack.requestQueueUrl?.split(',').map((url) => url.trim()) ?? [];
  const urls = [requests, stack.urgentQueueUrl ?? []].flat();
  const close = async (): Promise<void> => {
    await client.close();
    for (const own of Object.values(clients)) own.destroy();
  };
  const option = values['request-queue'];
  /** Returns the request queues, or an empty list if the deployment names none. */
  const requestQueues = (): Promise<Queue[]> =>
    Promise.all(urls.map((url) => identify(url, clients.sqs, option?.includes(url) === true)));
  return { client, requestQueues, close };
}

/** @param isTyped true if an option names the queue: then it may be another one of the deployment */
async function identify(QueueUrl: string, sqs: SQSClient, isTyped: boolean): Promise<Queue> {
  let attributes: z.infer<typeof QUEUE_ATTRIBUTES>;
  try {
    const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }));
    attributes = QUEUE_ATTRIBUTES.parse(Attributes);
  } catch (cause) {
    throw new Error(
      `expected the request queue ${QueueUrl} to say when it was created, got ${describeError(cause)}; ` +
        'allow sqs:GetQueueAttributes, check the URL, or try again',
      { cause },
    );
  }
  const { QueueArn: arn, CreatedTimestamp: seconds } = attributes;
  const other = isTyped ? otherQueueOf(attributes) : undefined;
  if (other !== undefined) {
    throw new UsageError(
      `--request-queue: expected the request queue, got ${QueueUrl}, which ${other}; give the other URL, or a --stack ` +
        'FILE that says requestQueueUrl',
    );
  }
  return { arn, created: new Date(1000 * seconds).toISOString() };
}

const QUEUE_ATTRIBUTES = z.object({
  QueueArn: z.string(),
  CreatedTimestamp: z.coerce.number().positive(),
  RedrivePolicy: z.string().optional(),
});

/**
 * Returns why a queue is not the request queue of a deployment. A request queue has a dead-letter queue; without one, its
 * name decides: that of a deployment, or of `npm run dev`.
 */
function otherQueueOf({ QueueArn, RedrivePolicy }: z.infer<typeof QUEUE_ATTRIBUTES>): string | undefined {
  if (RedrivePolicy !== undefined) return undefined;
  const name = QueueArn.slice(QueueArn.lastIndexOf(':') + 1);
  if (/dead[-_]?letter|dlq/i.test(name)) return 'is a dead-letter queue by its name and has none itself';
  const isOfResults = /result/i.test(name) && !/request/i.test(name);
  return isOfResults ? 'is a result queue by its name and has no dead-letter queue' : undefined;
}

/** @throws UsageError naming the options or the keys of the stack FILE with wrong values */
function clientWith(values: DeploymentValues, options: BatchscoreOptions): Batchscore {
  try {
    return new Batchscore(options);
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    const problems = cause.message.replace(/^Batchscore options: /, '');
    const asTyped = REPLACED.reduce((text, [option, key]) => {
      const name = values[option as keyof DeploymentValues] === undefined ? `--stack: ${key}` : `--${option}`;
      return text.replace(new RegExp(`(^|; )${key}(\\.\\d+)?:`), `$1${name}:`);
    }, problems);
    throw new UsageError(asTyped, { cause });
  }
}

const NONE_FOR_DEV = '; what npm run dev serves needs none: give --stack FILE with the first line that it prints';

/** @throws Error with instructions to get credentials, which the SDK's own error lacks */
export async function assertCredentials({ config }: S3Client, hint = ''): Promise<void> {
  await config.credentials().catch((cause: unknown) => {
    throw new Error(
      `expected AWS credentials, got none (${messageOf(cause)}); run aws configure or aws sso login, or set AWS_PROFILE${hint}`,
      { cause },
    );
  });
}

/** Fails if a local deployment is stopped. It keeps everything in memory, so no result can arrive after that. */
async function assertListening(endpoint: string): Promise<void> {
  const { protocol, hostname, port } = new URL(endpoint);
  const socket = createConnection({ host: hostname, port: Number(port) || (protocol === 'https:' ? 443 : 80) });
  try {
    await once(socket, 'connect');
  } catch (cause) {
    throw new Error(
      `expected the deployment at ${endpoint}, nothing listens there (${messageOf(cause)}); is npm run dev running? ` +
        'Give --stack the line that it printed last',
      { cause },
    );
  } finally {
    socket.destroy();
  }
}

function clientsOnAws({ region, requestQueueUrl, resultQueueUrl }: Stack) {
  const urls = [requestQueueUrl, resultQueueUrl].flatMap((url) => url?.split(',') ?? []);
  return {
    sqs: createSqsClient(CLIENT_PATIENCE, { ...(region && { region }), logger: SILENT }, urls),
    s3: createS3Client(CLIENT_PATIENCE, { region, maxAttempts: 3 }),
  };
}

/** Returns clients for a stack with its own endpoint. Such a stack is local and accepts any credentials. */
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

/** Keys of FILE. Other keys are ignored. */
const STACK = z.object({
  requestQueueUrl: text,
  urgentQueueUrl: text,
  resultQueueUrl: text,
  deadLetterQueueUrl: text,
  resultTable: text,
  payloadBucket: text,
  payloadPrefix: text,
  region: text,
  endpoint: z.url().optional(),
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

/** @throws UsageError if the file of `--stack` cannot be read, or contains no deployment or several */
export async function readStack(file: string): Promise<Stack> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    const reason = systemReason(cause) ?? String(cause);
    throw new UsageError(`--stack: ${file}: expected a file, got: ${reason}; check the path`, { cause });
  });
  const found = deploymentIn(text);
  if (typeof found !== 'string') return found;
  throw new UsageError(
    `--stack: expected ${file} to hold one deployment, as the first line that npm run dev prints or the file that cdk ` +
      `deploy --outputs-file writes, got ${found}`,
  );
}

/**
 * Returns the deployment in a file. `npm run` prints a banner before the line of JSON. An outputs file is an object
 * over many lines, with the outputs of each stack under its name.
 *
 * @returns a description of the contents and of what to do, if the file does not contain exactly one deployment
 */
function deploymentIn(text: string): Stack | string {
  if (text.trim() === '') return 'an empty file; wait until npm run dev has printed the line, and keep that';
  const line = text.split('\n').find((one) => one.startsWith('{')) ?? '';
  const content = parseIfJson(line.trimEnd() === '{' ? text : line);
  if (content === undefined) return 'text that is no JSON; name another file';
  const { data: whole, error } = STACK.safeParse(content, IN_OUR_WORDS);
  if (error !== undefined) return `other values (${problemsIn(error.issues, content).join('; ')}); correct them`;
  const outputs = OUTPUTS.safeParse(content).data ?? {};
  const [deployment, another] = Object.values(outputs).filter((stack) => stack.requestQueueUrl !== undefined);
  if (another !== undefined) return 'several; keep the one that is meant';
  return deployment ?? whole;
}

/** @param options options that replace the key. @default none does */
function notSaid(stack: string | undefined, key: string, options?: string): UsageError {
  const given = options === undefined ? '' : ` or ${options}`;
  if (stack === undefined) return new UsageError(`expected --stack FILE${given}, got none`);
  const cure = options === undefined ? 'leave the option out' : `give ${options}`;
  return new UsageError(`--stack: expected ${stack} to name ${key}, it does not; name another, or ${cure}`);
}
