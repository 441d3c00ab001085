import type { IAccessPoint } from 'aws-cdk-lib/aws-efs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { isS3Uri, type ModelsUri, readModelsUri } from '../../../lambda/core/places.ts';

/** A model repository in S3, which hosts fetch when they start. */
export interface S3Models {
  /** `s3://bucket/prefix/<digest>`, as `batchscore publish` printed it. */
  readonly uri: string;
  /**
   * The bucket of the URI, so that its policy and its key grant what reading takes.
   * @default one whose objects are encrypted with a key of S3, or of AWS
   */
  readonly bucket?: IBucket;
}

/** A model repository in a file system, which the function mounts and may not write to: `lambdaCompute` with a `vpc`. */
export interface EfsModels {
  /** One that exists is `AccessPoint.fromAccessPointAttributes`, with its file system. */
  readonly accessPoint: IAccessPoint;
  /** The repository's folder below the access point, such as `releases/42`: another one is another deployment. @default its root */
  readonly folder?: string;
}

/** Where models are: a folder that is built into the image, S3, or a file system. Text with `s3://` is S3. */
export type Models = string | S3Models | EfsModels;

/** One of the three. */
export interface ModelPlace {
  readonly folder?: string;
  readonly s3?: ModelsUri & { readonly bucketOfUri?: IBucket | undefined };
  readonly efs?: EfsModels;
}

/** @throws Error when a URI has no digest */
export function placeOfModels(models: Models | undefined): ModelPlace {
  if (models === undefined) return {};
  if (typeof models === 'string') return isS3Uri(models) ? { s3: readModelsUri(models) } : { folder: models };
  if ('accessPoint' in models) return { efs: models };
  return { s3: { ...readModelsUri(models.uri), bucketOfUri: models.bucket } };
}

/** Where a function has the file system: Lambda takes no place outside `/mnt/`. */
export const MOUNT_PATH = '/mnt/models';

/** Where a host finds the repository that it mounts. */
export function mountedFolder({ folder }: EfsModels): string {
  return folder === undefined ? MOUNT_PATH : `${MOUNT_PATH}/${folder}`;
}
