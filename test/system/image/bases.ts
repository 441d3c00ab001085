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

/** Tags of what stands in for the images that the stages of the Dockerfile are built on. */
export interface Bases {
  readonly LAMBDA_BASE: string;
  readonly WORKER_BASE: string;
}

/** Images that stand in for the bases, with this very Node in them. They are made once and kept: it takes minutes. */
export async function makeBases(): Promise<Bases> {
  if (!process.version.startsWith('v24.')) {
    throw new Error(
      `expected to run on Node 24, which the images run on, got ${process.version}; use npm run test:image`,
    );
  }
  const version = versionOfBases();
  const bases = {
    LAMBDA_BASE: `localhost/batchscore-test-base:${version}`,
    WORKER_BASE: `localhost/batchscore-test-base-node:${version}`,
  };
  const exist = await Promise.all(Object.values(bases).map(imageExists));
  if (exist.includes(false)) await buildBases(bases);
  return bases;
}

function versionOfBases(): string {
  const hash = createHash('sha256').update(`${RUNTIME_CLIENT} ${DEBIAN} ${process.version} ${process.arch}`);
  for (const file of readdirSync(SOURCES).toSorted()) hash.update(readFileSync(join(SOURCES, file)));
  return hash.digest('hex').slice(0, 12);
}

async function buildBases(bases: Bases): Promise<void> {
  const context = temporaryFolder();
  cpSync(SOURCES, context, { recursive: true });
  copyFileSync(process.execPath, join(context, 'node'));
  await Promise.all([
    makeDebian(join(context, 'rootfs.tar'), ['libstdc++6']),
    download(RUNTIME_CLIENT, join(context, 'runtime')),
  ]);
  const file = join(context, 'Containerfile');
  await buildImage({ context, file, tag: bases.LAMBDA_BASE, target: 'lambda' });
  await buildImage({ context, file, tag: bases.WORKER_BASE, target: 'node' });
}

/**
 * An image with nothing in it but a folder for the locale, of any platform.
 *
 * @returns its tag
 */
export async function emptyBase(platform: string): Promise<string> {
  const context = temporaryFolder();
  const tag = ownTag('empty');
  writeFileSync(join(context, 'Dockerfile'), 'FROM scratch\nCOPY Dockerfile /usr/lib/locale/C.utf8/\n');
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
