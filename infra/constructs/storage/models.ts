import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { isS3Uri, type ModelsUri, readModelsUri } from '../../../lambda/core/contract/modelsUri.ts';

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

/** Where models are: a folder that is built into the image, or S3. Text with `s3://` is S3. */
export type Models = string | S3Models;

/** One of the two. */
export interface ModelPlace {
  readonly folder?: string;
  readonly s3?: ModelsUri & { readonly bucketOfUri?: IBucket | undefined };
}

/** @throws Error when a URI has no digest */
export function placeOfModels(models: Models | undefined): ModelPlace {
  if (models === undefined) return {};
  if (typeof models !== 'string') return { s3: { ...readModelsUri(models.uri), bucketOfUri: models.bucket } };
  return isS3Uri(models) ? { s3: readModelsUri(models) } : { folder: models };
}
