import { Batchscore } from '../../client/index.ts';
import { localClients, notSaid, readStack, type Stack } from './stackFile.ts';

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

export interface Connection {
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
