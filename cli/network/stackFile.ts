import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { CLIENT_PATIENCE, createDynamoDbClient, createS3Client, createSqsClient } from '../../lambda/aws/awsClients.ts';
import { UsageError } from '../arguments.ts';
import { systemReason } from '../fileErrors.ts';

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

export type Stack = z.infer<typeof STACK>;
/** @throws UsageError when the file of `--stack` cannot be read, or holds none or several */
export async function readStack(file: string): Promise<Stack> {
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

export function notSaid(stack: string | undefined, key: string, options: string): UsageError {
  if (stack === undefined) return new UsageError(`expected --stack FILE or ${options}, got none`);
  return new UsageError(`--stack: expected ${stack} to name ${key}, it does not; name another, or give ${options}`);
}

/** A stack that names its endpoint is a local one: any credentials do. */
export function localClients({ region = 'us-east-1', dynamodbEndpoint, s3Endpoint }: Stack, endpoint: string) {
  const local = { region, credentials: { accessKeyId: 'local', secretAccessKey: 'local' } };
  return {
    sqs: createSqsClient(CLIENT_PATIENCE, { ...local, endpoint, useQueueUrlAsEndpoint: false }),
    dynamodb: createDynamoDbClient(CLIENT_PATIENCE, { ...local, endpoint: dynamodbEndpoint ?? endpoint }),
    s3: createS3Client(CLIENT_PATIENCE, { ...local, endpoint: s3Endpoint ?? endpoint, forcePathStyle: true }),
  };
}
