import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** What the image installs of CUDA, for pip: with ONNX Runtime's part for it, and what only some operators need. */
const PINS = 'cuda.txt';
const PINS_OF_CUFFT = 'cufft.txt';

/**
 * Copies the lists of CUDA's packages, each with its version and hash, into the folder of an image.
 *
 * @param folder with ONNX Runtime in its `node_modules`
 * @throws Error when that is of another version than its part for CUDA: the two would not load together
 */
export function copyCudaPins(folder: string): void {
  const { version } = JSON.parse(readFileSync(join(folder, 'node_modules/onnxruntime-node/package.json'), 'utf8'));
  const pinned = /^onnxruntime-gpu==(\S+)/m.exec(readFileSync(source(PINS), 'utf8'))?.[1];
  if (version !== pinned) {
    throw new Error(
      `onnxruntime-node: expected version ${pinned}, whose part for CUDA is pinned, got ${version}; ` +
        `run npm install onnxruntime-node@${pinned} --onnxruntime-node-install=skip`,
    );
  }
  for (const file of [PINS, PINS_OF_CUFFT]) copyFileSync(source(file), join(folder, file));
}

function source(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url));
}
