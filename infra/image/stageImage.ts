import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { walkModels } from '../../lambda/onnx/findModels.ts';
import { readModelConfig } from '../../lambda/onnx/modelConfig.ts';
import { bundle } from './bundle.ts';
import {
  describeLeftOut,
  FOR_DEVELOPERS,
  findPackage,
  gatherModels,
  NPM_NAMES,
  type ProcessorName,
} from './gatherModels.ts';

export interface ImageOptions {
  /** Model repository, a folder with `<name>/<version>/model.onnx`. @default none: the image contains no model */
  readonly modelsDirectory?: string | undefined;
  readonly architecture: ProcessorName;
  /** Stage of the Dockerfile to build. CUDA is built for x86_64. */
  readonly stage: ImageStage;
  /** Called with a sentence about files of the repository that are not in the image. @default not called */
  readonly inform?: (message: string) => void;
}

/** Folder with a Dockerfile, but without the files that it copies. */
export const UNSTAGED = fileURLToPath(new URL('.', import.meta.url));

/**
 * Assembles the folder that an image is built from: the bundled handler or worker, the packages that cannot be bundled
 * (with ONNX Runtime for one platform only), the models and the Dockerfile. The packages are the installed ones, so an
 * image contains the versions that were tested, and its build downloads only CUDA.
 *
 * The same sources give the same content. The folder is deleted when the process ends.
 *
 * @returns the folder's path
 * @throws Error if there is no ONNX Runtime for the processor
 */
export function stageImage({ modelsDirectory, architecture, stage, inform }: ImageOptions): string {
  const problem = runtimeProblem({ architecture, stage });
  if (problem !== undefined) throw new Error(problem);
  const folder = temporaryFolder();
  try {
    mkdirSync(join(folder, 'models'));
    if (modelsDirectory !== undefined) copyModels(modelsDirectory, join(folder, 'models'), architecture, inform);
    copyRuntimePackages(architecture, join(folder, 'node_modules'));
    if (mayTokenize(modelsDirectory)) copyTokenizers(architecture, join(folder, 'node_modules'));
    if (hasGpu(stage)) for (const file of [PINS, PINS_OF_CUFFT]) copyFileSync(source(file), join(folder, file));
    addHost(stage.startsWith('lambda') ? 'lambda' : 'worker', folder);
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
    copyFileSync(source('Dockerfile'), join(folder, 'Dockerfile'));
    letEveryoneRead(folder);
    return folder;
  } catch (error) {
    rmSync(folder, { recursive: true });
    throw error;
  }
}

/** Folders of the binaries in the package, by processor. */
const BINARIES = { x86_64: 'bin/napi-v6/linux/x64', arm64: 'bin/napi-v6/linux/arm64' };

const INSTALL = '--onnxruntime-node-install=skip';

/**
 * Returns the reason why an image cannot be built: ONNX Runtime is not installed, does not support the processor, or
 * has another version than the CUDA part, which then does not load.
 */
export function runtimeProblem({
  architecture,
  stage,
}: Pick<ImageOptions, 'architecture' | 'stage'>): string | undefined {
  const { onnxRuntime, common } = runtimePackages();
  const command = `run npm install onnxruntime-node ${INSTALL}, and not with --omit=optional`;
  if (onnxRuntime === undefined || common === undefined) {
    const missing = onnxRuntime === undefined ? 'onnxruntime-node' : 'onnxruntime-common';
    return `${missing}: expected the package to be installed, got none; ${command}`;
  }
  const binaries = BINARIES[architecture];
  if (!existsSync(join(onnxRuntime, binaries, 'onnxruntime_binding.node'))) {
    return `${onnxRuntime}: expected ONNX Runtime for ${architecture} in ${binaries}, got nothing there; ${command}`;
  }
  const { version } = JSON.parse(readFileSync(join(onnxRuntime, 'package.json'), 'utf8'));
  const pinned = /^onnxruntime-gpu==(\S+)/m.exec(readFileSync(source(PINS), 'utf8'))?.[1];
  if (!hasGpu(stage) || version === pinned) return undefined;
  return (
    `onnxruntime-node: expected version ${pinned}, whose part for CUDA is pinned, got ${version}; ` +
    `run npm install onnxruntime-node@${pinned} ${INSTALL}`
  );
}

/** Returns the folders of the packages that cannot be bundled. Undefined if they are not installed. */
function runtimePackages(): { readonly onnxRuntime: string | undefined; readonly common: string | undefined } {
  const onnxRuntime = findPackage('onnxruntime-node', import.meta.url);
  const common = onnxRuntime && findPackage('onnxruntime-common', join(onnxRuntime, 'package.json'));
  return { onnxRuntime, common };
}

const temporaryFolders: string[] = [];

/**
 * Creates a folder that is deleted when the process ends. An app needs it until then, because the CDK may refer to it
 * instead of copying it.
 */
function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-image-'));
  if (temporaryFolders.push(folder) === 1) process.once('exit', removeTemporaryFolders);
  return folder;
}

function removeTemporaryFolders(): void {
  for (const folder of temporaryFolders) rmSync(folder, { recursive: true, force: true });
}

/** Sets modes, because a host runs as another user, and the modes of the sources depend on their owner. */
function letEveryoneRead(folder: string): void {
  chmodSync(folder, 0o755);
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o755 : 0o644);
  }
}

/** Copies the packages that are not bundled, with the binaries of one platform. */
function copyRuntimePackages(architecture: ProcessorName, nodeModules: string): void {
  const { onnxRuntime = '', common = '' } = runtimePackages();
  copyPackage(onnxRuntime, join(nodeModules, 'onnxruntime-node'), ['dist', BINARIES[architecture]]);
  copyPackage(common, join(nodeModules, 'onnxruntime-common'), ['dist']);
  for (const name of ['onnxruntime-node', 'onnxruntime-common']) {
    copyFileSync(source(LICENSE_OF_ONNX_RUNTIME), join(nodeModules, name, 'LICENSE'));
  }
}

/** Returns true if a model has a tokenizer, or if the models are fetched at start and may have one. */
function mayTokenize(modelsDirectory: string | undefined): boolean {
  return (
    modelsDirectory === undefined ||
    walkModels(modelsDirectory).some(({ folder }) => readModelConfig(folder).tokenizer !== undefined)
  );
}

/** Copies the package `tokenizers` if it is installed, with the binary of one platform of 13. */
function copyTokenizers(architecture: ProcessorName, nodeModules: string): void {
  const from = findPackage('tokenizers', import.meta.url);
  const binary = `tokenizers.linux-${NPM_NAMES[architecture]}-gnu.node`;
  if (from !== undefined) copyPackage(from, join(nodeModules, 'tokenizers'), ['index.js', binary, 'LICENSE']);
}

/** Licence of ONNX Runtime. Its npm packages contain none. */
const LICENSE_OF_ONNX_RUNTIME = 'onnxruntime-license.txt';

function copyPackage(from: string, to: string, content: readonly string[]): void {
  for (const kept of ['package.json', ...content]) {
    if (!existsSync(join(from, kept))) continue;
    cpSync(join(from, kept), join(to, kept), {
      recursive: true,
      dereference: true,
      filter: (file) => !FOR_DEVELOPERS.test(file),
    });
  }
}

/** Requirements for pip: ONNX Runtime's CUDA part and its libraries, and those of some operators. */
const PINS = 'cuda.txt';
const PINS_OF_CUFFT = 'cufft.txt';

function source(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url));
}

/** Copies the files of a model repository that hosts need. */
function copyModels(from: string, to: string, architecture: ProcessorName, inform?: (message: string) => void): void {
  const { files, leftOut } = gatherModels(from, to, architecture);
  for (const [path, source] of files) {
    const target = join(to, path);
    if (source === target) continue;
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(source, target);
  }
  const said = describeLeftOut(leftOut);
  if (said !== undefined) inform?.(said);
}

/** Entry points of each host. Its command, a health check, a process or a thread starts them. */
const ENTRY_POINTS: Readonly<Record<ImageHost, readonly string[]>> = {
  lambda: ['lambda/handler', 'lambda/jobScore', 'lambda/jobControl'],
  worker: ['lambda/worker', 'lambda/hosts/healthCheck'],
};
const OF_ALL_HOSTS = ['lambda/scorer/scorerProcess', 'lambda/onnx/sessionWorker'];

/** Packages that cannot be bundled, because they load native libraries. */
const UNBUNDLED = ['onnxruntime-node', 'tokenizers'];

/**
 * Bundled CommonJS packages call `require`, which an ES module does not have. No code imports `requireOfBundle` itself.
 */
const REQUIRE =
  "import { createRequire as requireOfBundle } from 'node:module'; const require = requireOfBundle(import.meta.url);";

/** Adds the host. The published package contains bundled hosts, so an app does not need esbuild. */
function addHost(host: ImageHost, folder: string): void {
  if (import.meta.url.endsWith('.ts')) bundleHost(host, folder);
  else cpSync(source(`../hosts/${host}`), folder, { recursive: true });
}

/** Bundles the entry points of a host into a folder, one file each, with all their imports. */
export function bundleHost(host: ImageHost, folder: string): void {
  const files = [...ENTRY_POINTS[host], ...OF_ALL_HOSTS];
  const entryPoints = files.map((file) => ({ out: basename(file), in: `${file}.ts` }));
  bundle({
    absWorkingDir: fileURLToPath(new URL('../..', import.meta.url)),
    entryPoints,
    outdir: folder,
    // Code that only some deployments need is in separate files, which others do not read at start.
    splitting: true,
    target: 'node24',
    format: 'esm',
    external: UNBUNDLED,
    banner: { js: REQUIRE },
  });
}

/** Program in an image: the handler of a Lambda function, or the worker. */
type ImageHost = 'lambda' | 'worker';

/** Stages of the Dockerfile. */
export const IMAGE_STAGES = ['lambda', 'lambda-gpu', 'worker', 'worker-gpu'] as const;
export type ImageStage = (typeof IMAGE_STAGES)[number];

export function hasGpu(stage: ImageStage): boolean {
  return stage.endsWith('-gpu');
}
