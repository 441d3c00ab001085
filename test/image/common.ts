import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type ImageOptions, stageImage } from '../../infra/image/stageImage.ts';
import { lambdaBase } from './bases.ts';
import { secondsOf } from './command.ts';
import { type Build, buildImage, megabytesOf, removeImageAtExit } from './images.ts';
import { ownTag } from './ownNames.ts';
import { type ImageQueues, startImageQueues } from './queues.ts';
import { startFunction } from './scoringFunction.ts';

/** `cuda`: whether the real CUDA libraries are downloaded. */
export const { cuda } = parseArgs({ options: { cuda: { type: 'boolean', default: false } } }).values;

export const MODELS = fileURLToPath(new URL('../../models', import.meta.url));
export const ARCHITECTURE = process.arch === 'arm64' ? 'arm64' : 'x86_64';

/** What all suites use. */
export interface Common {
  /** Tag of what stands in for AWS's base image. */
  readonly base: string;
  /** Tag of the image for Lambda's processors. */
  readonly lambda: string;
  readonly queues: ImageQueues;
}

let made: Promise<Common> | undefined;

/** Made for whoever asks first. */
export function common(): Promise<Common> {
  made ??= makeCommon();
  return made;
}

export async function stopCommon(): Promise<void> {
  const whatWasMade = await made?.catch(() => undefined);
  await whatWasMade?.queues.stop();
}

async function makeCommon(): Promise<Common> {
  let base = '';
  const seconds = await secondsOf(async () => {
    base = await lambdaBase();
  });
  console.log(`base: ready after ${seconds} s`);
  const lambda = await build('lambda', base, stage());
  const [whole, bare] = await Promise.all([megabytesOf(lambda), megabytesOf(base)]);
  console.log(`lambda: ${whole} MB unpacked, ${whole - bare} MB of them on top of its base`);
  return { base, lambda, queues: await startImageQueues() };
}

/** The folder that an image of this machine's processor is built from. */
export function stage(options: Partial<ImageOptions> = {}): string {
  return stageImage({ modelsDirectory: MODELS, architecture: ARCHITECTURE, ...options });
}

/** Builds a target of the Dockerfile. @returns the image's tag */
export async function build(target: string, base: string, context: string, more: Partial<Build> = {}): Promise<string> {
  const tag = ownTag(target);
  const args = { LAMBDA_BASE: base, ...more.args };
  removeImageAtExit(tag);
  const seconds = await secondsOf(() => buildImage({ ...more, context, tag, target, args }));
  console.log(`${target}: built in ${seconds} s`);
  return tag;
}

/** What a function says that cannot start. */
export async function refusalOf(tag: string, environment: Readonly<Record<string, string>>): Promise<string> {
  const refusing = await startFunction(tag, environment);
  await refusing.stop();
  assert.ok('initError' in refusing.start, 'expected the function to refuse to start, got one that is ready');
  return refusing.start.initError.errorMessage;
}
