import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/** What holds `lambda/`: the repository, or `dist/` in the installed package. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js';

/** Packages that cannot be in a bundle: one loads a native library, the other finds its own files beside itself. */
export const UNBUNDLED = ['onnxruntime-node', 'piscina'] as const;

/** CommonJS packages call `require`, which an ES module does not have. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

/** Writes `handler.js`, and `sessionWorker.js`, which it starts threads with, each with everything they import. */
export function bundleHandler(folder: string): void {
  buildSync({
    absWorkingDir: ROOT,
    entryPoints: {
      handler: `lambda/handler.${EXTENSION}`,
      sessionWorker: `lambda/adapters/onnx/session/sessionWorker.${EXTENSION}`,
    },
    outdir: folder,
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    mainFields: ['module', 'main'],
    external: [...UNBUNDLED],
    banner: { js: REQUIRE },
  });
}
