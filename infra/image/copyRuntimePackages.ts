import { cpSync, existsSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

/** Where the package keeps the binaries of each processor. */
const BINARIES = { x86_64: 'linux/x64', arm64: 'linux/arm64' };

const INSTALL_ONNX_RUNTIME =
  'run npm install onnxruntime-node --onnxruntime-node-install=skip, and not with --omit=optional';

/**
 * Copies the packages that are not bundled, and of them only what runs on one platform.
 *
 * @throws Error when a package is missing or incomplete
 */
export function copyRuntimePackages(architecture: keyof typeof BINARIES, nodeModules: string): void {
  const onnxRuntime = packageFolder('onnxruntime-node', import.meta.url, INSTALL_ONNX_RUNTIME);
  const binaries = `bin/napi-v6/${BINARIES[architecture]}`;
  if (!existsSync(join(onnxRuntime, binaries, 'onnxruntime_binding.node'))) {
    throw new Error(
      `${onnxRuntime}: expected ONNX Runtime for ${architecture} in ${binaries}, got nothing there; ${INSTALL_ONNX_RUNTIME}`,
    );
  }
  const common = packageFolder('onnxruntime-common', join(onnxRuntime, 'package.json'), INSTALL_ONNX_RUNTIME);
  copyPackage(onnxRuntime, join(nodeModules, 'onnxruntime-node'), ['dist', binaries]);
  copyPackage(common, join(nodeModules, 'onnxruntime-common'), ['dist']);
}

/** Where Node finds a package that the file `importer` imports. A package may hide its package.json from `resolve`. */
function packageFolder(name: string, importer: string, whatToDo: string): string {
  const folders = createRequire(importer).resolve.paths(name) ?? [];
  const found = folders.map((folder) => join(folder, name)).find((folder) => existsSync(join(folder, 'package.json')));
  if (found === undefined) throw new Error(`${name}: expected the package to be installed, got none; ${whatToDo}`);
  return realpathSync(found);
}

/** Types and source maps, which nothing runs. */
const FOR_DEVELOPERS = /\.d\.[cm]?ts$|\.map$/;

function copyPackage(from: string, to: string, folders: readonly string[]): void {
  for (const kept of ['package.json', 'LICENSE', ...folders]) {
    if (!existsSync(join(from, kept))) continue;
    cpSync(join(from, kept), join(to, kept), {
      recursive: true,
      dereference: true,
      filter: (file) => !FOR_DEVELOPERS.test(file),
    });
  }
}
