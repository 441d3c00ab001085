import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/** The folder that holds `lambda/`: the repository, or `dist/` in the installed package. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js';

/** A package that cannot be bundled: it loads a native library. */
const UNBUNDLED = 'onnxruntime-node';

/** Bundled CommonJS packages call `require`, which an ES module does not have. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

/** Writes `handler.js` and the `sessionWorker.js` that it runs in threads, each bundled with everything it imports. */
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
    external: [UNBUNDLED],
    banner: { js: REQUIRE },
  });
}
