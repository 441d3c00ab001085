export const MODEL_FILE = 'model.onnx';

/** Settings of a model, beside its versions. */
export const CONFIG_FILE = 'config.json';

/** Path of a model in a repository, like Triton's. */
export const MODEL_LAYOUT = `<name>/<version>/${MODEL_FILE}`;

/** Returns true if a folder's name is a version: an integer from 1 without leading zeros. */
export function isVersion(folderName: string): boolean {
  return /^[1-9]\d*$/.test(folderName);
}

/** Compares versions for sorting. The highest version comes first and is the default. */
export function highestVersionFirst(a: string, b: string): number {
  return Number(b) - Number(a);
}

/** Place of a published model repository: `s3://bucket/prefix/<digest>`. */
export interface ModelsUri {
  readonly bucket: string;
  /** Prefix of all its keys without a slash at the end. It ends with the digest. */
  readonly folder: string;
  /** Hexadecimal SHA-256 of its manifest. Other content is refused. */
  readonly digest: string;
}

const SCHEME = 's3://';

export function isS3Uri(text: string): boolean {
  return text.startsWith(SCHEME);
}

/**
 * Matches a bucket, and key parts without special meaning in the resource of an IAM statement.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
 */
const PLACE = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._=+-]+)*)\/?$/;
const DIGEST = /^[0-9a-f]{64}$/;

/** Parses a bucket and a prefix without slashes at its ends. Returns undefined for any other text. */
export function parseS3Prefix(uri: string): { readonly bucket: string; readonly prefix: string } | undefined {
  const [, bucket, path = ''] = PLACE.exec(uri) ?? [];
  return bucket === undefined ? undefined : { bucket, prefix: path.slice(1) };
}

/** Parses a URI of published models. Returns undefined if it is invalid or has no digest: its content could change. */
export function parseModelsUri(uri: string): ModelsUri | undefined {
  const place = parseS3Prefix(uri);
  const digest = place?.prefix.split('/').at(-1) ?? '';
  return place !== undefined && DIGEST.test(digest)
    ? { bucket: place.bucket, folder: place.prefix, digest }
    : undefined;
}

export const PUBLISHED = 'the URI that batchscore publish printed, s3://bucket/prefix/<digest>';

/** Parses a models URI. @throws Error naming the command that prints such URIs */
export function readModelsUri(uri: string): ModelsUri {
  const parsed = parseModelsUri(uri);
  if (parsed !== undefined) return parsed;
  throw new Error(
    `models: expected ${PUBLISHED}, got '${uri}'; run batchscore publish FOLDER s3://bucket/prefix, and take what it prints`,
  );
}

/*
 * Key prefixes of a deployment. In its own bucket its prefix is ''. In a shared bucket its own prefix comes first, so
 * that several deployments can use the bucket.
 */

/** Returns the key prefix of request bodies. Only producers put objects there, and nothing else is a request. */
export function requestKeys(prefix: string): string {
  return `${prefix}requests/`;
}

/** Returns the key prefix of results. Only hosts put objects there, and no other object is read as a result. */
export function resultKeys(prefix: string): string {
  return `${prefix}results/`;
}

/** Returns the key prefix of samples. Hosts put objects there, and read none. */
export function capturedKeys(prefix: string): string {
  return `${prefix}captured/`;
}

/** Returns true if a key has the prefix and continues after it. S3 keys are plain texts, without folders. */
export function liesUnder(keys: string, key: string): boolean {
  return key.length > keys.length && key.startsWith(keys);
}

/** Maximum length of a prefix. It leaves room for the rest of a key of 1,024 bytes. */
const MAX_CHARACTERS = 512;

/** Description of a key prefix that {@link isKeyPrefix} accepts, for messages. */
export const EXPECTED_KEY_PREFIX =
  `expected a path that ends in '/', of at most ${MAX_CHARACTERS} letters, digits and . _ -, with no part called requests ` +
  'or results';

/**
 * Returns true if a text is valid as the prefix of a deployment. It has no IAM wildcards, and nothing that the Extended
 * Client for Java refuses. No part is `requests` or `results`: otherwise objects under `a/requests/` would also be
 * requests of the deployment `a/`.
 */
export function isKeyPrefix(text: string): boolean {
  if (text === '') return true;
  if (text.length > MAX_CHARACTERS || text.includes('..')) return false;
  return /^([A-Za-z0-9_-][A-Za-z0-9._-]*\/)+$/.test(text) && !/(^|\/)(requests|results)\//.test(text);
}

/** Returns true if a path in the model repository is a model that hosts open. Deeper files are ordinary files. */
export function isServed(path: string): boolean {
  const [name, version = '', file, ...deeper] = path.split('/');
  return name !== '' && isVersion(version) && file === MODEL_FILE && deeper.length === 0;
}
