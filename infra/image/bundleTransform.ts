// Bundles a transform in a process of its own, because esbuild's plugins are asynchronous and a CDK app cannot await.
//     node bundleTransform.ts TRANSFORM BUNDLE
// Prints `BundledTransform` as JSON.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import {
  type BuildFailure,
  type BuildResult,
  build,
  type Loader,
  type Message,
  type Metafile,
  type Plugin,
  transform,
} from 'esbuild';
import { LICENSES, licensesOf } from './bundle.ts';

export interface BundledTransform {
  /** Paths of the transform and of the modules that it imports, without those of packages. */
  readonly modules: readonly string[];
  /** Names of imported packages that do not work in a bundle. */
  readonly packages: readonly string[];
  /** Code of the modules, without comments. */
  readonly code: string;
}

const [entry = '', bundle = ''] = process.argv.slice(2).map((path) => resolve(path));
const root = dirname(entry);

type Import = Metafile['inputs'][string]['imports'][number];

/** Bundles repeatedly, each time without the packages that turned out not to work in a bundle. */
async function bundleTransform(): Promise<BundledTransform> {
  const packages = new Set<string>();
  const isApart = ({ path, external }: Import): boolean => external === true && packages.has(nameOf(path));
  for (;;) {
    const built = await bundleWithout([...packages]).catch((failed: BuildFailure) => failed);
    const inputs = 'metafile' in built ? Object.entries(built.metafile?.inputs ?? {}) : [];
    // A package that imports one of `packages` must load its own version of it.
    const unfit = inputs.filter(([path, { imports }]) => usesOwnFiles(resolve(root, path)) || imports.some(isApart));
    const said = [...built.errors, ...built.warnings].map(({ location }) => location?.file ?? '');
    const names = [...unfit.map(([path]) => path), ...said].filter((path) => packageOf(path) !== undefined).map(nameOf);
    if (names.some((name) => !packages.has(name))) {
      for (const name of names) packages.add(name);
      continue;
    }
    if (built instanceof Error) throw built;
    const modules = inputs
      .map(([path]) => sourceOf(resolve(root, path)))
      .filter((path) => packageOf(path) === undefined);
    writeLicenses(built);
    const imported = inputs.flatMap(([, { imports }]) => imports.filter(isApart).map(({ path }) => nameOf(path)));
    return { modules, packages: [...new Set(imported)], code: (await Promise.all(modules.map(codeOf))).join('') };
  }
}

/**
 * Writes the licence texts of the bundle's packages beside it. For a package without a text, writes the licence's name.
 */
function writeLicenses({ metafile = { inputs: {}, outputs: {} } }: BuildResult): void {
  const texts = licensesOf(metafile, root, ({ license = 'none' }) => `Licence: ${license}`);
  if (texts !== undefined) writeFileSync(join(dirname(bundle), LICENSES), texts);
}

function bundleWithout(packages: readonly string[]): Promise<BuildResult> {
  return build({
    entryPoints: [entry],
    outfile: bundle,
    // The bundle contains paths of its sources, so they are relative, which makes it the same in any folder.
    absWorkingDir: root,
    bundle: true,
    metafile: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    // Node does not use the field `module`.
    mainFields: ['main'],
    conditions: ['module-sync', 'node-addons'],
    // The image has its own copies of the last two.
    external: [...packages, 'onnxruntime-node', 'onnxruntime-common'],
    // Node does not read tsconfig.json.
    tsconfigRaw: {},
    // The build must go on until all packages with native code are found.
    loader: { '.node': 'empty' },
    logLevel: 'silent',
    logOverride: { 'indirect-require': 'warning', 'unsupported-require-call': 'warning' },
    plugins: [asInNode],
    banner: { js: REQUIRE },
  });
}

/** Defines what CommonJS has and an ES module does not: `require`, and the paths of the transform's own modules. */
const REQUIRE =
  "import { createRequire as requireOfBundle } from 'node:module'; var require = requireOfBundle(import.meta.url); " +
  "var pathInBundle = (place) => process.getBuiltinModule('node:url').fileURLToPath(new URL(place, import.meta.url));";

const MODULE = /\.[cm]?[jt]s$/;
/**
 * Extension that makes esbuild treat a module as ECMAScript. If package.json has no `type`, Node decides by the syntax.
 */
const ECMASCRIPT = '.mts';
const SYNTAX = /^\s*(import|export)\b/m;
const MADE_REQUIRE = /\b(?:const|let|var)\s+require\s*=\s*createRequire\(import\.meta\.(?:url|filename)\)/g;

/**
 * Makes imports of the transform's own modules work as in Node: with Node's rules for CommonJS, and with a `require`
 * that they create. A module in another folder than the transform resolves files from the bundle's folder.
 */
const asInNode: Plugin = {
  name: 'as-in-node',
  setup(builder) {
    builder.onResolve({ filter: /.*/ }, async ({ path, pluginData, ...importer }) => {
      if (pluginData === asInNode || packageOf(importer.importer) !== undefined) return undefined;
      const found = await builder.resolve(path, { ...importer, pluginData: asInNode });
      if (found.external || found.errors.length > 0 || packageOf(found.path) !== undefined) return found;
      if (found.path.endsWith('.node')) return { path: `./${placeOf(found.path)}`, external: true };
      if (!MODULE.test(found.path) || !SYNTAX.test(readFileSync(found.path, 'utf8'))) return found;
      return { ...found, path: found.path + ECMASCRIPT };
    });
    builder.onLoad({ filter: /\.[cm]?[jt]s\.mts$/ }, (found) => {
      const path = sourceOf(found.path);
      const place = placeOf(path);
      const at = (where: string): string => `new URL(${JSON.stringify(where)}, import.meta.url)`;
      const pathAt = (where: string): string => `process.getBuiltinModule('node:url').fileURLToPath(${at(where)})`;
      const contents = readFileSync(path, 'utf8')
        .replaceAll(MADE_REQUIRE, '')
        .replaceAll(/import\.meta\.url\b/g, `${at(place)}.href`)
        .replaceAll(/import\.meta\.filename\b/g, pathAt(place))
        .replaceAll(/import\.meta\.dirname\b/g, pathAt(`${dirname(place)}/`));
      return { contents, loader: loaderOf(path), resolveDir: dirname(path) };
    });
    builder.onLoad({ filter: MODULE }, ({ path }) => {
      if (packageOf(path) !== undefined) return undefined;
      const contents = readFileSync(path, 'utf8');
      if (!/\b__(dirname|filename)\b/.test(contents)) return undefined;
      const pathOf = (place: string): string => `pathInBundle(${JSON.stringify(place)})`;
      const place = placeOf(path);
      const paths = `var __filename = ${pathOf(place)}, __dirname = ${pathOf(`${dirname(place)}/`)}; `;
      return { contents: paths + contents, loader: loaderOf(path), resolveDir: dirname(path) };
    });
  },
};

function sourceOf(path: string): string {
  return path.replace(/(\.[cm]?[jt]s)\.mts$/, '$1');
}

/** Returns the path relative to the transform's folder. */
function placeOf(path: string): string {
  return relative(root, path).replaceAll(sep, '/');
}

function loaderOf(path: string): Loader {
  if (path.endsWith('.json')) return 'json';
  return path.endsWith('ts') ? 'ts' : 'js';
}

async function codeOf(path: string): Promise<string> {
  return (await transform(readFileSync(path, 'utf8'), { loader: loaderOf(path), charset: 'utf8' })).code;
}

/** Returns true if a package has native code or WebAssembly, or asks for its own path. */
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

const PACKAGE = /^.*node_modules[\\/]((?:@[^\\/]+[\\/])?[^\\/]+)/;

/** Returns the folder of the package that contains a file. Undefined for a module outside of packages. */
function packageOf(path: string): string | undefined {
  return PACKAGE.exec(path)?.[0];
}

function nameOf(path: string): string {
  return (PACKAGE.exec(path)?.[1] ?? /^(@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? '').replaceAll(sep, '/');
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
