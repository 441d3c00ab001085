import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleHost } from './bundleHost.ts';
import { copyCudaPins } from './copyCudaPins.ts';
import { copyModels } from './copyModels.ts';
import { copyRuntimePackages } from './copyRuntimePackages.ts';
import { IMAGE_STAGES, type ImageStage } from './imageStages.ts';

export interface ImageOptions {
  /** The model repository, a folder with `<name>/<version>/model.onnx`. @default none: the image holds no model */
  readonly modelsDirectory?: string;
  /** The processor that the image is for. */
  readonly architecture: 'x86_64' | 'arm64';
  /** The stage of the Dockerfile that is built. One with a GPU needs x86_64. */
  readonly stage: ImageStage;
}

const DOCKERFILE = fileURLToPath(new URL('./Dockerfile', import.meta.url));

/**
 * Assembles the folder that an image is built from: the bundled handler or worker, the packages that cannot be bundled
 * (with ONNX Runtime for one platform only), the models and the Dockerfile. The packages are the installed ones, so that
 * an image holds the versions that were tested, and building it installs nothing but CUDA.
 *
 * The same sources give the same content. The folder is deleted when the process ends.
 *
 * @returns the folder's path
 * @throws Error when the repository holds no model, or there is no ONNX Runtime, or no GPU for the processor
 */
export function stageImage({ modelsDirectory, architecture, stage }: ImageOptions): string {
  const { host, hasGpu } = IMAGE_STAGES[stage];
  if (hasGpu && architecture !== 'x86_64') {
    throw new Error(
      `architecture: expected x86_64 with a GPU, because CUDA is built for it, got ${architecture}; set x86_64`,
    );
  }
  const folder = temporaryFolder();
  try {
    if (modelsDirectory === undefined) mkdirSync(join(folder, 'models'));
    else copyModels(modelsDirectory, join(folder, 'models'));
    copyRuntimePackages(architecture, join(folder, 'node_modules'));
    if (hasGpu) copyCudaPins(folder);
    bundleHost(host, folder);
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
    copyFileSync(DOCKERFILE, join(folder, 'Dockerfile'));
    letEveryoneRead(folder);
    return folder;
  } catch (error) {
    rmSync(folder, { recursive: true });
    throw error;
  }
}

const temporaryFolders: string[] = [];

/** An app needs its folders until it ends: the CDK copies them, or refers to them where it is told not to copy. */
function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-image-'));
  if (temporaryFolders.push(folder) === 1) process.once('exit', removeTemporaryFolders);
  return folder;
}

function removeTemporaryFolders(): void {
  for (const folder of temporaryFolders) rmSync(folder, { recursive: true, force: true });
}

/** A host runs as a user of its own, while the modes of the sources depend on who created them. */
function letEveryoneRead(folder: string): void {
  chmodSync(folder, 0o755);
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o755 : 0o644);
  }
}
