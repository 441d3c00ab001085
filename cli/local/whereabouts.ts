import { CONFIG_KEYS } from '../../lambda/configKeys.ts';
import { type LocalServices, urlsOf } from './services.ts';

export interface Whereabouts extends Pick<LocalServices, 'queues' | 'buckets' | 'table' | 'environment'> {
  readonly jobs?: Readonly<Record<string, string>> | undefined;
  /** URL of the page. */
  readonly page?: string | undefined;
}

/** Where everything is, by the names of the client's options. */
export function whereabouts({ queues, buckets, table, environment, jobs, page }: Whereabouts): object {
  const { endpoint, region, resultQueueUrl, deadLetterQueueUrl } = queues;
  const resultsGoTo = environment[CONFIG_KEYS.results]?.split(',') ?? [];
  return {
    endpoint,
    region,
    requestQueueUrl: urlsOf(queues),
    resultQueueUrl,
    deadLetterQueueUrl,
    payloadBucket: buckets.payloadBucket,
    s3Endpoint: buckets.endpoint,
    ...(table === undefined ? {} : { resultTable: table.tableName, dynamodbEndpoint: table.endpoint }),
    ...(resultsGoTo.includes('bucket') ? { resultBucket: buckets.resultBucket } : {}),
    ...jobs,
    ...(page === undefined ? {} : { page }),
  };
}

/** What a shell takes: the worker of this repository, with these services. */
export function workerCommand({ queues, buckets, table, environment }: Whereabouts): string {
  const variables = {
    AWS_REGION: queues.region,
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
    AWS_ENDPOINT_URL_SQS: queues.endpoint,
    AWS_ENDPOINT_URL_S3: buckets.endpoint,
    AWS_ENDPOINT_URL_DYNAMODB: table?.endpoint,
    [CONFIG_KEYS.defaultModel]: 'digits',
    ...environment,
  };
  const given = Object.entries(variables).filter(([, value]) => value !== undefined);
  return `env ${given.map(([name, value]) => `${name}=${value}`).join(' ')} npm run -s worker`;
}
