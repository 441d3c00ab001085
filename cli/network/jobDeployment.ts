import type { S3Client } from '@aws-sdk/client-s3';
import { Batchscore } from '../../client/index.ts';
import { CLIENT_PATIENCE, createS3Client } from '../../lambda/aws/awsClients.ts';
import { createSfnClient } from '../../lambda/aws/jobExecutions.ts';
import { JOB_PREFIXES, JOB_RANGES } from '../../lambda/core/limits.ts';

import type { Connection } from './deployment.ts';
import { localClients, notSaid, readStack } from './stackFile.ts';

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
export interface JobConnection extends Connection {
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
