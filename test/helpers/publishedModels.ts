import { hash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import type { Patience } from '../../lambda/aws/awsClients.ts';
import { type FetchModelsOptions, fetchModels } from '../../lambda/aws/fetchModels.ts';
import { digestOf, fileKey, manifestKey, PART_BYTES, partsOf, writeManifest } from '../../lambda/aws/modelManifest.ts';
import type { Step } from './frontServer.ts';
import { afterThisTest } from './openModels.ts';
import type { S3Server } from './s3Server.ts';

export type Files = Readonly<Record<string, Uint8Array>>;

/** Bytes of which no two parts are alike, and no part is a whole one. */
export function someBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let index = 0; index < length; index++) bytes[index] = (index * 2_654_435_761) >>> 24;
  return bytes;
}

/** Two parts, of which the last is short: the local server takes no more than 10 MiB at once. */
export const LARGE = someBytes(PART_BYTES + 1234);

export interface Published {
  readonly bucket: string;
  /** The prefix and the digest. */
  readonly folder: string;
  readonly digest: string;
  readonly uri: string;
}

/** A model repository in a bucket of its own, with the manifest that describes it, or with another text in its place. */
export async function publish(server: S3Server, files: Files, manifest = manifestOf(files)): Promise<Published> {
  const bucket = await server.bucket();
  const digest = digestOf(manifest);
  const folder = `team/models/${digest}`;
  for (const [path, bytes] of Object.entries(files)) await server.put(bucket, fileKey(folder, path), bytes);
  await server.put(bucket, manifestKey(folder), manifest);
  return { bucket, folder, digest, uri: `s3://${bucket}/${folder}` };
}

export function manifestOf(files: Files): string {
  const described = Object.entries(files).map(([path, bytes]) => ({
    path,
    bytes: bytes.length,
    parts: partsOf(bytes.length).map(({ start, end }) => hash('sha256', bytes.subarray(start, end))),
  }));
  return writeManifest(described);
}

export interface Fetching {
  /** Where repositories are fetched to. */
  readonly directory: string;
  /** The paths of the requests so far, without the query, and the ranges that they asked for. */
  requests(): { readonly path: string; readonly range: string | undefined }[];
  fetch(uri: string, options?: Partial<FetchModelsOptions>): Promise<string>;
}

interface Surroundings {
  readonly patience?: Patience;
  /** What answers the n-th request in the server's place. */
  readonly steps?: readonly (Step | undefined)[];
  /** @default an empty one */
  readonly directory?: string;
}

/** Fetches through a server in front, which is gone after the test. */
export async function fetching(
  server: S3Server,
  { patience, steps = [], directory }: Surroundings = {},
): Promise<Fetching> {
  const into = directory ?? (await emptyFolder());
  const front = await server.front(...steps);
  const s3 = server.client(front, patience);
  return {
    directory: into,
    requests: () =>
      front.requests.map(({ path, headers }) => ({ path: path.split('?')[0] ?? '', range: headers.range })),
    fetch: (uri, options = {}) => fetchModels({ s3, uri, directory: into, retry: { random: () => 0 }, ...options }),
  };
}

/** A folder that only this user can write to; it is gone after the test. */
export async function emptyFolder(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'batchscore-fetched-'));
  afterThisTest(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** Waits until a start has noted so many parts as fetched. */
export async function untilPartsAre(directory: string, count: number): Promise<void> {
  for (let noted = 0; noted < count; ) {
    const files = await filesIn(directory).catch((): Files => ({}));
    const notes = Object.entries(files).find(([path]) => path.endsWith('/notes'))?.[1] ?? new Uint8Array();
    noted = Buffer.from(notes).toString().split('\n').length - 1;
  }
}

/** What lies in a folder, by path. */
export async function filesIn(folder: string): Promise<Record<string, Uint8Array>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const read = paths.map(async (path) => [relative(folder, path), new Uint8Array(await readFile(path))] as const);
  return Object.fromEntries(await Promise.all(read));
}

/** What stands for a file's content, where the content itself would fill the screen. */
export function digests(files: Files): Record<string, string> {
  return Object.fromEntries(
    Object.entries(files).map(([path, bytes]) => [path, `${bytes.length} ${hash('sha256', bytes)}`]),
  );
}
