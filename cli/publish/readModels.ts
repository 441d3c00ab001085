import { hash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { checkModelsFolder } from '../../infra/constructs/image/modelsFolder.ts';
import { deployedFiles } from '../../infra/image/deployedFiles.ts';
import { isSafePath, type ModelFile, partsOf } from '../../lambda/aws/modelManifest.ts';
import { readPart } from './readPart.ts';

/**
 * The files of a model repository that is checked as a deployment checks it: those that an image would get.
 *
 * @throws Error naming what a host would refuse at start
 */
export async function readModels(folder: string): Promise<ModelFile[]> {
  checkModelsFolder(folder, undefined);
  const files: ModelFile[] = [];
  for (const path of deployedFiles(folder)) files.push(await readModelFile(folder, path));
  return files;
}

async function readModelFile(folder: string, path: string): Promise<ModelFile> {
  if (!isSafePath(path)) {
    throw new Error(
      `${join(folder, path)}: expected a name without backslashes and control characters; rename or remove it`,
    );
  }
  const { size: bytes } = await stat(join(folder, path));
  const parts: string[] = [];
  for (const part of partsOf(bytes)) parts.push(hash('sha256', await readPart(join(folder, path), part)));
  return { path, bytes, parts };
}
