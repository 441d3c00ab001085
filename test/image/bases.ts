import { createHash } from 'node:crypto';
import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './command.ts';
import { buildImage, imageExists, removeImageAtExit } from './images.ts';
import { ownTag, temporaryFolder } from './ownNames.ts';

const SOURCES = fileURLToPath(new URL('./base/', import.meta.url));
const RUNTIME_CLIENT = 'aws-lambda-ric@4.0.2';
const DEBIAN = 'bookworm';

/**
 * An image that stands in for AWS's base image, with this very Node in it. It is made once and kept: it takes minutes.
 *
 * @returns its tag
 */
export async function lambdaBase(): Promise<string> {
  if (!process.version.startsWith('v24.')) {
    throw new Error(
      `expected to run on Node 24, which the image runs on, got ${process.version}; use npm run test:image`,
    );
  }
  const tag = `localhost/batchscore-test-base:${versionOfBase()}`;
  if (!(await imageExists(tag))) await buildBase(tag);
  return tag;
}

function versionOfBase(): string {
  const hash = createHash('sha256').update(`${RUNTIME_CLIENT} ${DEBIAN} ${process.version} ${process.arch}`);
  for (const file of readdirSync(SOURCES).toSorted()) hash.update(readFileSync(join(SOURCES, file)));
  return hash.digest('hex').slice(0, 12);
}

async function buildBase(tag: string): Promise<void> {
  const context = temporaryFolder();
  cpSync(SOURCES, context, { recursive: true });
  copyFileSync(process.execPath, join(context, 'node'));
  await Promise.all([
    makeDebian(join(context, 'rootfs.tar'), ['libstdc++6']),
    download(RUNTIME_CLIENT, join(context, 'runtime')),
  ]);
  await buildImage({ context, tag, file: join(context, 'Containerfile') });
}

/**
 * An image with nothing in it, of any platform.
 *
 * @returns its tag
 */
export async function emptyBase(platform: string): Promise<string> {
  const context = temporaryFolder();
  const tag = ownTag('empty');
  writeFileSync(join(context, 'Dockerfile'), 'FROM scratch\nCOPY Dockerfile /\n');
  await buildImage({ context, tag, platform });
  removeImageAtExit(tag);
  return tag;
}

/**
 * An image that stands in for Python's.
 *
 * @returns its tag
 */
export async function pythonBase(): Promise<string> {
  const context = temporaryFolder();
  const tag = ownTag('python');
  await makeDebian(join(context, 'rootfs.tar'), ['libstdc++6', 'python3', 'python3-pip', 'zlib1g']);
  writeFileSync(join(context, 'Dockerfile'), 'FROM scratch\nADD rootfs.tar /\n');
  await buildImage({ context, tag });
  removeImageAtExit(tag);
  return tag;
}

async function makeDebian(tarball: string, packages: readonly string[]): Promise<void> {
  const include = `--include=${['ca-certificates', ...packages].join(',')}`;
  await run('mmdebstrap', ['--quiet', '--variant=minbase', include, DEBIAN, tarball]);
}

/** Its install scripts compile it, which the image's build does. */
async function download(name: string, folder: string): Promise<void> {
  mkdirSync(folder);
  await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', folder, name], folder);
}
