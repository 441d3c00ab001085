// Bundles a transform, as a process: a CDK app cannot wait, and esbuild's plugins need somebody who does.
//     node bundleTransform.ts TRANSFORM BUNDLE
// It prints `BundledTransform` as JSON.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { type BuildResult, build, type Loader, type Message, type Plugin, transform } from 'esbuild';

/** What a bundle was made of. */
export interface BundledTransform {
  /** Paths of the transform and of the modules that it imports, other than those of packages. */
  readonly modules: readonly string[];
  /** Folders of packages that are not in the bundle, because they use files of their own. */
  readonly packages: readonly string[];
  /** The code of the modules, without comments. */
  readonly code: string;
}

const [entry = '', bundle = ''] = process.argv.slice(2).map((path) => resolve(path));

/** Bundles again until no package that uses files of its own is in the bundle. */
async function bundleTransform(): Promise<BundledTransform> {
  const packages = new Set<string>();
  for (;;) {
    const { metafile } = await bundleWithout([...packages].map(nameOf));
    const inputs = Object.keys(metafile?.inputs ?? {}).map((path) => resolve(dirname(entry), path));
    const found = inputs.filter(usesOwnFiles).flatMap((path) => packageOf(path) ?? []);
    if (found.length === 0) {
      const modules = inputs.filter((path) => packageOf(path) === undefined);
      return { modules, packages: [...packages], code: (await Promise.all(modules.map(codeOf))).join('') };
    }
    for (const folder of found) packages.add(folder);
  }
}

function bundleWithout(packages: readonly string[]): Promise<BuildResult> {
  return build({
    entryPoints: [entry],
    outfile: bundle,
    // The same wherever the repository lies: the bundle names what it is made of.
    absWorkingDir: dirname(entry),
    bundle: true,
    metafile: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    mainFields: ['module', 'main'],
    // Of the last two the image has its own.
    external: [...packages, 'onnxruntime-node', 'onnxruntime-common'],
    // As Node does, which knows of none.
    tsconfigRaw: {},
    logLevel: 'silent',
    plugins: [placesStay],
    banner: { js: REQUIRE },
  });
}

/** Bundled CommonJS packages call `require`, which an ES module does not have. */
const REQUIRE =
  "import { createRequire as requireOfBundle } from 'node:module'; var require = requireOfBundle(import.meta.url);";

/** A module in another folder than the transform finds the files beside it from where the bundle is. */
const placesStay: Plugin = {
  name: 'places-stay',
  setup({ onLoad }) {
    onLoad({ filter: /\.[cm]?[jt]s$/ }, ({ path }) => {
      const place = relative(dirname(entry), path).replaceAll(sep, '/');
      if (packageOf(path) !== undefined || !place.includes('/')) return undefined;
      const at = (where: string): string => `new URL(${JSON.stringify(where)}, import.meta.url)`;
      const pathAt = (where: string): string => `process.getBuiltinModule('node:url').fileURLToPath(${at(where)})`;
      const contents = readFileSync(path, 'utf8')
        .replaceAll(/import\.meta\.url\b/g, `${at(place)}.href`)
        .replaceAll(/import\.meta\.filename\b/g, pathAt(place))
        .replaceAll(/import\.meta\.dirname\b/g, pathAt(`${dirname(place)}/`));
      return { contents, loader: loaderOf(path) };
    });
  },
};

function loaderOf(path: string): Loader {
  if (path.endsWith('.json')) return 'json';
  return path.endsWith('ts') ? 'ts' : 'js';
}

async function codeOf(path: string): Promise<string> {
  return (await transform(readFileSync(path, 'utf8'), { loader: loaderOf(path) })).code;
}

/** Native code, WebAssembly, or code that asks where it lies. */
function usesOwnFiles(path: string): boolean {
  const folder = packageOf(path);
  if (folder === undefined) return false;
  return hasBinaries(folder) || USES_ITS_PLACE.test(readFileSync(path, 'utf8'));
}

const USES_ITS_PLACE = /\b__(dirname|filename)\b|\bimport\.meta\.(url|dirname|filename|resolve)\b|\brequire\.resolve\b/;
const BINARY = /\.(node|wasm)$/;
const known = new Map<string, boolean>();

function hasBinaries(folder: string): boolean {
  const found = known.get(folder) ?? readdirSync(folder, { recursive: true }).some((file) => BINARY.test(String(file)));
  known.set(folder, found);
  return found;
}

/** The folder of the package that a file is of; undefined for a module that is of none. */
function packageOf(path: string): string | undefined {
  return /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/.exec(path)?.[0];
}

function nameOf(folder: string): string {
  return (
    join(folder)
      .split(/[\\/]node_modules[\\/]/)
      .at(-1)
      ?.replaceAll(sep, '/') ?? ''
  );
}

try {
  process.stdout.write(JSON.stringify(await bundleTransform()));
} catch (error) {
  const errors: readonly Message[] = Object(error).errors ?? [];
  const said = errors.map(({ text, location }) =>
    location === null ? text : `${text} (${location.file}:${location.line})`,
  );
  process.stderr.write(said.length > 0 ? said.join(', ') : String(error));
  process.exitCode = 1;
}
