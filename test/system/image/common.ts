import assert from 'node:assert/strict';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type ImageOptions, type ImageStage, stageImage } from '../../../infra/image/stageImage.ts';
import { lowerCaseModel } from '../../helpers/onnxModels.ts';
import { type Bases, makeBases } from './bases.ts';
import { secondsOf, secondsSince } from './command.ts';
import { type Build, buildImage, megabytesOf, removeImageAtExit } from './images.ts';
import { ownTag, temporaryFolder } from './ownNames.ts';
import { type ImageQueues, startImageQueues } from './queues.ts';
import { startFunction } from './scoringFunction.ts';

/** `cuda`: whether the real CUDA libraries are downloaded. */
export const { cuda } = parseArgs({ options: { cuda: { type: 'boolean', default: false } } }).values;

/** The repository's models, and one that opens the default locale of ONNX Runtime. */
export const MODELS = modelsWithWords();

function modelsWithWords(): string {
  const folder = temporaryFolder();
  cpSync(fileURLToPath(new URL('../../../models', import.meta.url)), folder, { recursive: true });
  mkdirSync(join(folder, 'words/1'), { recursive: true });
  writeFileSync(join(folder, 'words/1/model.onnx'), lowerCaseModel());
  return folder;
}

export const ARCHITECTURE = process.arch === 'arm64' ? 'arm64' : 'x86_64';

/** What all suites use. */
export interface Common {
  readonly bases: Bases;
  /** Tag of the image for Lambda's processors. */
  readonly lambda: string;
  /** Tag of the worker's image. */
  readonly worker: string;
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
  const startedAt = performance.now();
  const bases = await makeBases();
  console.log(`bases: ready after ${secondsSince(startedAt)} s`);
  const lambda = await build('lambda', bases.LAMBDA_BASE, stage('lambda'));
  await tellSize('lambda', lambda, bases.LAMBDA_BASE);
  const worker = await build('worker', bases.WORKER_BASE, stage('worker'));
  await tellSize('worker', worker, bases.WORKER_BASE);
  return { bases, lambda, worker, queues: await startImageQueues() };
}

export async function tellSize(target: ImageStage, tag: string, base: string): Promise<void> {
  const [whole, bare] = await Promise.all([megabytesOf(tag), megabytesOf(base)]);
  console.log(`${target}: ${whole} MB unpacked, ${whole - bare} MB of them on top of its base`);
}

/** The folder that an image of this machine's processor is built from. */
export function stage(target: ImageStage, options: Partial<ImageOptions> = {}): string {
  return stageImage({ modelsDirectory: MODELS, architecture: ARCHITECTURE, ...options, stage: target });
}

/** Builds a target of the Dockerfile. @returns the image's tag */
export async function build(
  target: ImageStage,
  base: string,
  context: string,
  more: Partial<Build> = {},
): Promise<string> {
  const tag = ownTag(target);
  const args = { [target.startsWith('lambda') ? 'LAMBDA_BASE' : 'WORKER_BASE']: base, ...more.args };
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
