import { Token } from 'aws-cdk-lib';
import type { Problem } from '../base/refuse.ts';
import type { ModelPlace } from '../storage/models.ts';

/** A bucket beside a URI must be the one that the URI names, as far as its name is known. */
export function modelsBucketProblem({ s3 }: ModelPlace): Problem {
  const name = s3?.bucketOfUri?.bucketName;
  if (name === undefined || Token.isUnresolved(name) || name === s3?.bucket) return undefined;
  return `models.bucket: expected the bucket of the URI, ${s3?.bucket}, got ${name}; give that one, or publish into this one`;
}
