import { Token } from 'aws-cdk-lib';
import type { Problem } from '../base/refuse.ts';
import type { ModelPlace } from '../storage/models.ts';

/** What a compute says of itself. */
interface MountingCompute {
  readonly kind: string;
  readonly hasNetwork?: boolean;
}

/** Models outside the image must be where the function can reach them, as far as that is known. */
export function modelProblems(place: ModelPlace, compute: MountingCompute): Problem[] {
  return [otherBucket(place), noNetwork(place, compute), otherFolder(place)];
}

function otherBucket({ s3 }: ModelPlace): Problem {
  const name = s3?.bucketOfUri?.bucketName;
  if (name === undefined || Token.isUnresolved(name) || name === s3?.bucket) return undefined;
  return `models.bucket: expected the bucket of the URI, ${s3?.bucket}, got ${name}; give that one, or publish into this one`;
}

/** @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-filesystem.html */
function noNetwork({ efs }: ModelPlace, { kind, hasNetwork = false }: MountingCompute): Problem {
  if (efs === undefined || hasNetwork) return undefined;
  return (
    'models: expected a function with a network of its own, because a file system is mounted there, ' +
    `got compute ${kind} without; give lambdaCompute the vpc of the file system, or take models in S3`
  );
}

/** Steps of letters, digits and a few signs, which lead nowhere else. */
const FOLDER = /^(?!\.{1,2}(?:\/|$))[\w.=+-]+(?:\/(?!\.{1,2}(?:\/|$))[\w.=+-]+)*$/;

function otherFolder({ efs }: ModelPlace): Problem {
  if (efs?.folder === undefined || FOLDER.test(efs.folder)) return undefined;
  return (
    'models.folder: expected a folder below the access point, such as releases/42, of letters, digits and . _ = + -, ' +
    `got '${efs.folder}'; name it without slashes at its ends`
  );
}
