import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Puts a model where a repository in `folder` has it. @returns the model's folder */
export async function putModel(folder: string, name: string, model: Uint8Array): Promise<string> {
  const file = join(folder, name, '1', 'model.onnx');
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, model);
  return join(folder, name);
}
