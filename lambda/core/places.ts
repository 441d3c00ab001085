export const MODEL_FILE = 'model.onnx';

/** A model's settings, beside its versions. */
export const CONFIG_FILE = 'config.json';

/** How a model repository is laid out: as Triton's. */
export const MODEL_LAYOUT = `<name>/<version>/${MODEL_FILE}`;

/** Returns true if a folder of this name is a version of its model: a whole number from 1, written without leading zeros. */
export function isVersion(folderName: string): boolean {
  return /^[1-9]\d*$/.test(folderName);
}

/** Sorts versions so that the highest, which is the default one, comes first. */
export function highestVersionFirst(a: string, b: string): number {
  return Number(b) - Number(a);
}

/** Place of a published model repository: `s3://bucket/prefix/<digest>`. */
export interface ModelsUri {
  readonly bucket: string;
  /** Prefix of all its keys, before a slash: the prefix and the digest. */
  readonly folder: string;
  /** SHA-256 of its manifest in hexadecimal: what lies there is this repository, or is refused. */
  readonly digest: string;
}

const SCHEME = 's3://';

/** Returns true if a place of models is in S3. */
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

/** Form of a URI of models. */
export const PUBLISHED = 'the URI that batchscore publish printed, s3://bucket/prefix/<digest>';

/** @throws Error naming the command that prints such URIs */
export function readModelsUri(uri: string): ModelsUri {
  const parsed = parseModelsUri(uri);
  if (parsed !== undefined) return parsed;
  throw new Error(
    `models: expected ${PUBLISHED}, got '${uri}'; run batchscore publish FOLDER s3://bucket/prefix, and take what it prints`,
  );
}

/*
 * Place of a deployment's objects. In a bucket of its own the prefix is ''; in a bucket that was given to it, the
 * deployment's own prefix comes first, so that several deployments can share the bucket.
 */

/** Prefix of keys of request bodies: producers put them there alone, and nothing else is read as a request. */
export function requestKeys(prefix: string): string {
  return `${prefix}requests/`;
}

/** Prefix of keys of results: hosts put them there alone, and nothing else is read as a result. */
export function resultKeys(prefix: string): string {
  return `${prefix}results/`;
}

/** Prefix of keys of samples: hosts put them there, and read none. */
export function capturedKeys(prefix: string): string {
  return `${prefix}captured/`;
}

/** Returns true if a key has such a prefix. To S3 a key is a text without folders, so texts are compared. */
export function liesUnder(keys: string, key: string): boolean {
  return key.length > keys.length && key.startsWith(keys);
}

/** Leaves room for what follows in the 1,024 bytes of a key. */
const MAX_CHARACTERS = 512;

/** What {@link isKeyPrefix} takes, for messages. */
export const EXPECTED_KEY_PREFIX =
  `expected a path that ends in '/', of at most ${MAX_CHARACTERS} letters, digits and . _ -, with no part called requests ` +
  'or results';

/**
 * Returns true if a text can be the prefix of a deployment. It holds no wildcard of IAM, and nothing that the Extended Client
 * for Java refuses in its key prefix. With no part called `requests` or `results`, the keys of two prefixes never meet:
 * otherwise, all that is under `a/requests/` would be requests of the deployment `a/` as well.
 */
export function isKeyPrefix(text: string): boolean {
  if (text === '') return true;
  if (text.length > MAX_CHARACTERS || text.includes('..')) return false;
  return /^([A-Za-z0-9_-][A-Za-z0-9._-]*\/)+$/.test(text) && !/(^|\/)(requests|results)\//.test(text);
}

/** Returns true if a path in the model repository is a model that hosts open: one deeper down is a file as any other. */
export function isServed(path: string): boolean {
  const [name, version = '', file, ...deeper] = path.split('/');
  return name !== '' && isVersion(version) && file === MODEL_FILE && deeper.length === 0;
}
