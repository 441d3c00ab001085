import { Stack } from 'aws-cdk-lib';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import type { ResultStores } from './resultStores.ts';

/** What comes before `requests/` and `results/` in the keys of a deployment: '' in a bucket of its own. */
export interface KeyPrefixes {
  readonly payloadPrefix: string;
  readonly resultPrefix: string;
}

export interface GivenBuckets {
  readonly keyPrefix?: string | undefined;
  readonly payloadBucket?: IBucket | undefined;
  readonly stores?: ResultStores | undefined;
}

/** In buckets that exist already, the given prefix, or one that no other deployment has. */
export function keyPrefixesOf(
  scope: Construct,
  serviceName: string,
  { keyPrefix = uniquePrefix(scope, serviceName), payloadBucket, stores }: GivenBuckets,
): KeyPrefixes {
  return {
    payloadPrefix: payloadBucket === undefined ? '' : keyPrefix,
    resultPrefix: stores?.resultBucket === undefined ? '' : keyPrefix,
  };
}

/** The service's name tells deployments of one account and region apart; a bucket may be shared beyond these. */
function uniquePrefix(scope: Construct, serviceName: string): string {
  const { account, region } = Stack.of(scope);
  return `batchscore/${account}/${region}/${serviceName}/`;
}
