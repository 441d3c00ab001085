/*
 * Where a deployment keeps its objects. In a bucket of its own the prefix is ''; in a bucket that was given to it, the
 * deployment's own prefix comes first, so that several deployments can share the bucket.
 */

/** What the keys of requests' bodies begin with: producers put them there alone, and nothing else is read as a request. */
export function requestKeys(prefix: string): string {
  return `${prefix}requests/`;
}

/** What the keys of results begin with: hosts put them there alone, and nothing else is read as a result. */
export function resultKeys(prefix: string): string {
  return `${prefix}results/`;
}

/** Whether a key lies under such a beginning. To S3 a key is a text without folders, so texts are compared. */
export function liesUnder(keys: string, key: string): boolean {
  return key.length > keys.length && key.startsWith(keys);
}

/** Leaves room for what follows in the 1,024 bytes of a key. */
const MOST_CHARACTERS = 512;

/** What {@link isKeyPrefix} takes, for messages. */
export const EXPECTED_KEY_PREFIX =
  `expected a path that ends in '/', of at most ${MOST_CHARACTERS} letters, digits and . _ -, with no part called requests ` +
  'or results';

/**
 * Whether a text can be the prefix of a deployment. It holds no wildcard of IAM, and nothing that the Extended Client
 * for Java refuses in its key prefix. With no part called `requests` or `results`, the keys of two prefixes never meet:
 * otherwise, all that is under `a/requests/` would be requests of the deployment `a/` as well.
 */
export function isKeyPrefix(text: string): boolean {
  if (text === '') return true;
  if (text.length > MOST_CHARACTERS || text.includes('..')) return false;
  return /^([A-Za-z0-9_-][A-Za-z0-9._-]*\/)+$/.test(text) && !/(^|\/)(requests|results)\//.test(text);
}
