import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';
import type { ImageHost } from './imageStages.ts';

/** The folder that holds `lambda/`: the repository, or `dist/` in the installed package. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js';

/** What is started by its name in the image: by the host's command, by a health check, or as a thread. */
const ENTRY_POINTS: Readonly<Record<ImageHost, Readonly<Record<string, string>>>> = {
  lambda: {
    handler: 'lambda/handler',
    jobScore: 'lambda/jobScore',
    jobControl: 'lambda/jobControl',
    sessionWorker: 'lambda/onnx/sessionWorker',
  },
  worker: {
    worker: 'lambda/worker',
    healthCheck: 'lambda/hosts/healthCheck',
    callThread: 'lambda/aws/callThread',
    sessionWorker: 'lambda/onnx/sessionWorker',
  },
};

/** A package that cannot be bundled: it loads a native library. */
const UNBUNDLED = 'onnxruntime-node';

/** Bundled CommonJS packages call `require`, which an ES module does not have. The name is one that no code imports itself. */
const REQUIRE =
  "import { createRequire as requireOfBundle } from 'node:module'; const require = requireOfBundle(import.meta.url);";

/** Writes what a host starts into a folder, a file each, bundled with everything that it imports. */
export function bundleHost(host: ImageHost, folder: string): void {
  const entryPoints = Object.entries(ENTRY_POINTS[host]).map(([out, file]) => ({ out, in: `${file}.${EXTENSION}` }));
  buildSync({
    absWorkingDir: ROOT,
    entryPoints,
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
