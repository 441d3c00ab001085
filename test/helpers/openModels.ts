import { channel } from 'node:diagnostics_channel';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { afterAll, afterEach, beforeEach } from '@jest/globals';
import type { MaybePromise } from '../../lambda/core/concurrency.ts';
import { type Failure, isFailure } from '../../lambda/core/failure.ts';
import type { Model } from '../../lambda/core/model.ts';
import type { Datatype, Tensor, TensorData } from '../../lambda/core/tensor.ts';
import { openRepository, type RepositoryOptions } from '../../lambda/onnx/repository.ts';

/** What a test's model repository holds, by path: the bytes of a file, its text, or what becomes its JSON. */
export type RepositoryFiles = Readonly<Record<string, Uint8Array | string | Readonly<Record<string, unknown>>>>;

type Cleanup = () => Promise<void>;
const ofTest: Cleanup[] = [];
const ofFile: Cleanup[] = [];
let isInTest = false;

beforeEach(() => {
  isInTest = true;
});
afterEach(async () => {
  isInTest = false;
  for (const cleanup of ofTest.splice(0).reverse()) await cleanup();
});
afterAll(async () => {
  for (const cleanup of ofFile.splice(0).reverse()) await cleanup();
});

/** Has `cleanup` called when the test has ended, or after all tests of the file where `beforeAll` asks; the last one first. */
export function afterThisTest(cleanup: Cleanup): void {
  (isInTest ? ofTest : ofFile).push(cleanup);
}

/** A temporary model repository; it is gone after the test. */
export async function modelsDirectory(files: RepositoryFiles): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'batchscore-models-'));
  afterThisTest(() => rm(directory, { recursive: true }));
  for (const [path, contents] of Object.entries(files)) await putFile(join(directory, path), contents);
  return directory;
}

export async function putFile(path: string, contents: RepositoryFiles[string]): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const raw = typeof contents === 'string' || contents instanceof Uint8Array;
  await writeFile(path, raw ? contents : JSON.stringify(contents));
}

export type OpenedModels = Awaited<ReturnType<typeof openModels>>;

/** Opens a temporary repository that holds `files`, with the defaults of the configuration; closed after the test. */
export async function openModels(files: RepositoryFiles, options: Partial<RepositoryOptions> = {}) {
  const directory = await modelsDirectory(files);
  const [warnings, log]: [string[], string[]] = [[], []];
  const repository = await openRepository({
    directory,
    defaultModel: undefined,
    maxBatchRows: 512,
    maxBatchElements: 4_194_304,
    providers: ['cpu'],
    allowProviderFallback: false,
    // A clock that stands still: no check is cut short, however busy the machine.
    now: () => 0,
    warn: (message) => void warnings.push(message),
    inform: (message) => void log.push(message),
    ...options,
  });
  afterThisTest(() => repository.close());
  return { directory, repository, warnings, log };
}

/**
 * A repository of one model named `model`, opened, and that model. ONNX Runtime does not print what fails.
 * @example const { model, repository, warnings } = await openOnly(identityModel(), { maxBatchRows: 4 });
 */
export async function openOnly(
  bytes: Uint8Array,
  config: Readonly<Record<string, unknown>> = {},
  options: Partial<RepositoryOptions> = {},
  files: RepositoryFiles = {},
): Promise<OpenedModels & { readonly model: Model }> {
  const quietConfig = { sessionOptions: { logSeverityLevel: 4 }, ...config };
  const all = { 'model/1/model.onnx': bytes, 'model/config.json': quietConfig, ...files };
  const opened = await openModels(all, options);
  return { ...opened, model: await found(opened.repository.find(undefined, undefined)) };
}

export async function found(finding: MaybePromise<Model | Failure>): Promise<Model> {
  const model = await finding;
  if (isFailure(model)) throw new Error(`expected a model, got ${model.code}: ${model.message}`);
  return model;
}

export function tensor(name: string, datatype: Datatype, shape: readonly number[], data: TensorData): Tensor {
  return { name, datatype, shape, data };
}

/** float32 `[rows, columns]` that counts up from 1. */
export function counting(name: string, rows: number, columns: number): Tensor {
  return tensor(
    name,
    'FP32',
    [rows, columns],
    Float32Array.from({ length: rows * columns }, (_, index) => index + 1),
  );
}

/** The threads that are started from now on until the test has ended, as Node itself tells of them. */
export function watchThreads(): Worker[] {
  const threads: Worker[] = [];
  const started = channel('worker_threads');
  const remember = (message: unknown): void => void threads.push((message as { worker: Worker }).worker);
  started.subscribe(remember);
  afterThisTest(async () => void started.unsubscribe(remember));
  return threads;
}

/** The ID of a thread that has ended. */
export const ENDED = -1;

export function alive(threads: readonly Worker[]): Worker[] {
  return threads.filter(({ threadId }) => threadId !== ENDED);
}
