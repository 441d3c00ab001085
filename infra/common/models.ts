import type { IAccessPoint } from 'aws-cdk-lib/aws-efs';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { Bucket, type IBucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { isS3Uri, type ModelsUri, readModelsUri } from '../../lambda/core/places.ts';
import { grantGet } from './grants.ts';
import { known, type Problem, refuse, refusing, unknownAtSynth } from './problems.ts';

/** Model repository in S3. Hosts fetch it when they start. */
export interface S3Models {
  /** `s3://bucket/prefix/<digest>`, as `batchscore publish` prints it. */
  readonly uri: string;
  /**
   * Bucket of the URI, so that its policy and its key can grant read access.
   * @default a bucket whose objects are encrypted with a key of S3 or AWS
   */
  readonly bucket?: IBucket;
}

/** Model repository in a file system that the function mounts read-only. It requires `lambdaCompute` with a `vpc`. */
export interface EfsModels {
  /** Access point. For an existing one, use `AccessPoint.fromAccessPointAttributes` with its file system. */
  readonly accessPoint: IAccessPoint;
  /** Folder of the repository below the access point, such as `releases/42`. @default the root of the access point */
  readonly folder?: string;
}

/**
 * Location of the models: a folder that is built into the image, S3, or a file system. Text that begins with `s3://` is
 * a URI in S3.
 */
export type Models = string | S3Models | EfsModels;

/** Location of the models. With none of the three, they are in the image. */
export interface ModelPlace {
  readonly folder?: string;
  readonly s3?: ModelsUri & { readonly bucketOfUri?: IBucket | undefined };
  readonly efs?: EfsModels;
}

/** Returns the location of the models. @throws ValidationError if a URI has no digest */
export function placeOfModels(models: Models | undefined): ModelPlace {
  if (models === undefined) return {};
  if (typeof models === 'object' && 'accessPoint' in models) return { efs: models };
  const { uri, bucket } = typeof models === 'string' ? { uri: models, bucket: undefined } : models;
  refuse([unknownAtSynth('models', uri)]);
  if (typeof models === 'string' && !isS3Uri(uri)) return { folder: models };
  return { s3: { ...refusing(() => readModelsUri(uri)), bucketOfUri: bucket } };
}

/** Mount path of a function's file system. Lambda requires a path below `/mnt/`. */
export const MOUNT_PATH = '/mnt/models';

export function modelSettings({ s3, efs }: ModelPlace) {
  return {
    modelsDirectory: efs && [MOUNT_PATH, efs.folder].filter((step) => step !== undefined).join('/'),
    modelsUri: s3 && `s3://${s3.bucket}/${s3.folder}`,
  };
}

/**
 * Returns problems with models outside the image that the function cannot reach, as far as known.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-filesystem.html
 */
export function modelProblems(
  { s3, efs }: ModelPlace,
  { kind, hasNetwork = false }: { readonly kind: string; readonly hasNetwork?: boolean },
): Problem[] {
  const bucket = known(s3?.bucketOfUri?.bucketName);
  return [
    bucket !== undefined &&
      bucket !== s3?.bucket &&
      `models.bucket: expected the bucket of the URI, ${s3?.bucket}, got ${bucket}; give that one, or publish into this one`,
    efs !== undefined &&
      !hasNetwork &&
      'models: expected a function with a network of its own, because a file system is mounted there, ' +
        `got compute ${kind} without; give lambdaCompute the vpc of the file system, or take models in S3`,
  ];
}

/** Grants the right to get only the objects of one published repository. */
export function grantModels(scope: Construct, grantee: IGrantable, { s3 }: ModelPlace): void {
  if (s3 === undefined) return;
  grantGet(grantee, s3.bucketOfUri ?? Bucket.fromBucketName(scope, 'Models', s3.bucket), `${s3.folder}/`);
}
