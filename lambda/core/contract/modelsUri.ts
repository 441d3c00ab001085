/** Where `batchscore publish` has put a model repository: `s3://bucket/prefix/<digest>`. */
export interface ModelsUri {
  readonly bucket: string;
  /** What the keys of all its objects begin with, before a slash: the prefix and the digest. */
  readonly folder: string;
  /** SHA-256 of its manifest in hexadecimal: what lies there is this repository, or is refused. */
  readonly digest: string;
}

const SCHEME = 's3://';

/** Whether a text that says where models are means S3 rather than a folder. */
export function isS3Uri(text: string): boolean {
  return text.startsWith(SCHEME);
}

/**
 * A bucket, and key parts that mean nothing in the resource of an IAM statement.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
 */
const PLACE = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._=+-]+)*)\/?$/;
const DIGEST = /^[0-9a-f]{64}$/;

/** A bucket and a prefix without slashes at its ends, which may be empty; undefined when it is no such URI. */
export function parseS3Prefix(uri: string): { readonly bucket: string; readonly prefix: string } | undefined {
  const [, bucket, path = ''] = PLACE.exec(uri) ?? [];
  return bucket === undefined ? undefined : { bucket, prefix: path.slice(1) };
}

/** Undefined when it is no S3 URI, or one without a digest: what lies there might change. */
export function parseModelsUri(uri: string): ModelsUri | undefined {
  const place = parseS3Prefix(uri);
  const digest = place?.prefix.split('/').at(-1) ?? '';
  return place !== undefined && DIGEST.test(digest)
    ? { bucket: place.bucket, folder: place.prefix, digest }
    : undefined;
}

/** What a URI of models must be. */
export const PUBLISHED = 'the URI that batchscore publish printed, s3://bucket/prefix/<digest>';

/** @throws Error naming the command that prints such URIs */
export function readModelsUri(uri: string): ModelsUri {
  const parsed = parseModelsUri(uri);
  if (parsed !== undefined) return parsed;
  throw new Error(
    `models: expected ${PUBLISHED}, got '${uri}'; run batchscore publish FOLDER s3://bucket/prefix, and take what it prints`,
  );
}
