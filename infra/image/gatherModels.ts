import { execFileSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, extname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { messageOf } from '../../lambda/core/failure.ts';
import { CONFIG_FILE, isServed, isVersion } from '../../lambda/core/places.ts';
import { deployedFiles, isForPeople, type ModelFolder, walkModels } from '../../lambda/onnx/findModels.ts';
import { readModelConfig, tokenizerPath, transformPath } from '../../lambda/onnx/modelConfig.ts';
import { externalFilesOf } from '../../lambda/onnx/modelFile.ts';
import { SAMPLES_FILE } from '../../lambda/onnx/probes.ts';
import { profilePath } from '../../lambda/onnx/profileFile.ts';
import { storeApart } from '../../lambda/onnx/weights.ts';
import type { BundledTransform } from './bundleTransform.ts';

/** Processor architecture, by the CDK's names. */
export type ProcessorName = 'x86_64' | 'arm64';

interface GatheredModels {
  /** Path of each file, by its path in the repository, with slashes. */
  readonly files: ReadonlyMap<string, string>;
  /** Paths of files that no host needs. A folder stands for all its files. */
  readonly leftOut: readonly string[];
}

/**
 * Gathers the files of a model repository that its hosts need: models with their weights, files beside them, and
 * transforms with the files that they import and read. Moves the weights of large models to separate files, and bundles
 * transforms.
 *
 * @param to empty folder for files that differ from the repository's
 * @param architecture of the hosts. If undefined, native code is refused
 * @throws Error naming a transform that cannot be bundled, or a package that does not run on the hosts
 */
export function gatherModels(from: string, to: string, architecture: ProcessorName | undefined): GatheredModels {
  const found = deployedFiles(from);
  const kept = new Set<string>();
  const modules = new Set<string>();
  for (const model of walkModels(from)) {
    const own = filesOfModel(from, model).filter((file) => found.includes(file));
    for (const file of own) kept.add(file);
    const transform = transformPath(model.folder, readModelConfig(model.folder));
    if (transform === undefined) continue;
    const beside = found.filter((file) => !own.includes(file) && isBeside(file, model.name));
    const gathered = gatherTransform(transform, model, { from, to, architecture, beside });
    for (const file of gathered.modules) modules.add(file);
    for (const file of gathered.read) kept.add(file);
  }
  for (const file of kept) {
    if (!isServed(file)) continue;
    mkdirSync(dirname(join(to, file)), { recursive: true });
    storeApart(join(from, file), join(to, file));
  }
  const written = filesIn(to);
  const files = new Map([...kept].map((file) => [file, join(from, file)]));
  for (const file of written) files.set(file, join(to, file));
  const needed = [...kept, ...modules];
  const useless = found.filter((file) => !needed.includes(file) && !isForPeople(file));
  const leftOut = useless.map((file) => topmostWithout(file, needed));
  return { files, leftOut: [...new Set(leftOut)] };
}

const MAX_NAMED = 10;

/** Returns a sentence about the files that were left out. Undefined if there are none. */
export function describeLeftOut(leftOut: readonly string[]): string | undefined {
  if (leftOut.length === 0) return undefined;
  const more = leftOut.length > MAX_NAMED ? ` and ${leftOut.length - MAX_NAMED} more` : '';
  return (
    `left out, because no host needs it: ${leftOut.slice(0, MAX_NAMED).join(', ')}${more}; what a transform reads is taken ` +
    'if its code names the file'
  );
}

/** Returns the files of a model that hosts read, without its transform. */
function filesOfModel(from: string, { folder, versions }: ModelFolder): string[] {
  const ofVersions = versions.flatMap(({ path }) =>
    existsSync(path) ? [path, ...externalFilesOf(path), profilePath(path)] : [],
  );
  const tokenizer = tokenizerPath(folder, readModelConfig(folder)) ?? [];
  const files = [...ofVersions, join(folder, CONFIG_FILE), join(folder, SAMPLES_FILE)].concat(tokenizer);
  return files.map((file) => slashed(from, file));
}

function slashed(from: string, file: string): string {
  return relative(from, file).replaceAll(sep, '/');
}

/** Returns true if a file is beside all models, or in the model's folder. */
function isBeside(file: string, model: string): boolean {
  return !file.includes('/') || file.startsWith(`${model}/`);
}

/** Returns the path of a file, or of its topmost folder without needed files. */
function topmostWithout(file: string, needed: readonly string[]): string {
  const steps = file.split('/');
  const folders = steps.slice(0, -1).map((_, index) => `${steps.slice(0, index + 1).join('/')}/`);
  return folders.find((folder) => !needed.some((path) => path.startsWith(folder))) ?? file;
}

interface TransformFiles {
  readonly from: string;
  readonly to: string;
  readonly architecture: ProcessorName | undefined;
  readonly beside: readonly string[];
}

/** Writes a transform's bundle, the files that it reads, and the settings that name it. */
function gatherTransform(
  transform: string,
  model: ModelFolder,
  { from, to, architecture, beside }: TransformFiles,
): { readonly modules: readonly string[]; readonly read: readonly string[] } {
  const folder = join(to, model.name);
  const bundle = `${basename(transform, extname(transform))}.mjs`;
  mkdirSync(folder, { recursive: true });
  const bundled = bundleTransform(transform, join(folder, bundle));
  const modules = bundled.modules.map((module) => slashed(realpathSync(from), module));
  const read = beside.filter((file) => !modules.includes(file) && isNamed(file, model.name, bundled.code));
  for (const file of read) {
    if (file.endsWith('.node')) refuseOtherProcessor(join(from, file), [join(from, file)], architecture);
    mkdirSync(dirname(join(to, file)), { recursive: true });
    copyFileSync(join(from, file), join(to, file));
  }
  const importers = [transform, ...bundled.modules];
  const packages = bundled.packages.flatMap((name) => packagesOf(name, importers));
  copyPackages(packages, join(folder, 'node_modules'), architecture);
  const config = JSON.parse(readFileSync(join(model.folder, CONFIG_FILE), 'utf8').replace(/^\uFEFF/, ''));
  writeFileSync(join(folder, CONFIG_FILE), `${JSON.stringify({ ...config, transform: bundle })}\n`);
  return { modules, read };
}

/** The source is beside this file in the repository, and the compiled file is beside it in the package. */
const BUNDLER = fileURLToPath(
  new URL(`./bundleTransform.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url),
);

/** Bundles a transform in a separate process. @throws Error naming the transform and the part that cannot be bundled */
function bundleTransform(transform: string, bundle: string): BundledTransform {
  try {
    const printed = execFileSync(process.execPath, [BUNDLER, realpathSync(transform), bundle], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return JSON.parse(printed);
  } catch (cause) {
    const said = Object(cause).stderr?.trim() || messageOf(cause);
    throw new Error(
      `${transform}: expected a module whose imports are there, got: ${said}; correct them, or run npm install for packages`,
      { cause },
    );
  }
}

/** Returns true if code contains the name of a file or of one of its folders, or a template that matches the name. */
function isNamed(file: string, model: string, code: string): boolean {
  const steps = file.split('/').filter((step, index) => index > 1 || (step !== model && !isVersion(step)));
  const name = steps.at(-1) ?? '';
  const isIn = (pattern: string): boolean => new RegExp(pattern).test(code);
  return (
    isIn(`(?<![\\w.-])${escaped(name)}(?![\\w-]|\\.\\w)`) ||
    templatesIn(code).some((template) => template.test(name)) ||
    steps
      .slice(0, -1)
      .map(escaped)
      .some((folder) => isIn(`(?<![\\w.-])${folder}/|${JOINED}(?:\\./)?${folder}["'\`]|(?:}|\\+ ["'])/${folder}["'\`]`))
  );
}

function escaped(name: string): string {
  return name.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&');
}

/**
 * Code up to the quote of a later path segment: a call of `join`, `resolve` or `URL` with texts, and with expressions
 * without texts.
 */
const JOINED = '\\b(?:join|resolve|URL)\\((?:[^;"\'`[\\]{}]|["\'`][^"\'`]*["\'`]\\s*,)*?["\'`]';

/** Returns patterns for the file names that templates in the code create, such as `vocabulary-${language}.txt`. */
function templatesIn(code: string): RegExp[] {
  const names = code.match(/(?:[\w.-]|\$\{[^{}]*\})*\$\{[^{}]*\}[\w.-]*\.[A-Za-z]\w*(?=[`"'])/g) ?? [];
  return names.map(
    (name) =>
      new RegExp(
        `^${name
          .split(/\$\{[^{}]*\}/)
          .map(escaped)
          .join('.+')}$`,
      ),
  );
}

/** Types and source maps, which are not needed at run time. */
export const FOR_DEVELOPERS = /\.d\.[cm]?ts$|\.map$/;

interface Package {
  readonly name: string;
  readonly folder: string;
}

/**
 * Copies packages with their dependencies, and only the native code for the processor.
 *
 * @throws Error naming a package that has native code, but none for the processor
 */
function copyPackages(
  packages: readonly Package[],
  nodeModules: string,
  architecture: ProcessorName | undefined,
): void {
  const placed = new Map<string, string>();
  const isForOthers = (file: string): boolean => file.endsWith('.node') && processorOf(file) !== architecture;
  const isForHost = (native: readonly string[]): boolean => native.length === 0 || !native.every(isForOthers);
  const place = ({ name, folder }: Package, within: string): void => {
    const known = placed.get(join(nodeModules, name));
    if (known === folder) return;
    const target = known === undefined ? join(nodeModules, name) : join(within, 'node_modules', name);
    if (placed.has(target)) return;
    placed.set(target, folder);
    const dependencies = dependenciesOf(folder);
    // Some packages keep native code in a separate package for each platform. One of these is enough.
    const native = [folder, ...dependencies.filter(isOfPlatform).map((one) => one.folder)].flatMap(nativeFilesIn);
    refuseOtherProcessor(name, native, architecture);
    cpSync(folder, target, {
      recursive: true,
      dereference: true,
      filter: (file) => file !== join(folder, 'node_modules') && !FOR_DEVELOPERS.test(file) && !isForOthers(file),
    });
    for (const one of dependencies) {
      if (!isOfPlatform(one) || isForHost(nativeFilesIn(one.folder))) place(one, target);
    }
  };
  for (const one of packages) place(one, nodeModules);
}

function nativeFilesIn(folder: string): string[] {
  const files = filesIn(folder).filter((file) => file.endsWith('.node'));
  return files.map((file) => join(folder, file));
}

function manifestOf(folder: string) {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
}

function isOfPlatform({ folder }: Package): boolean {
  return manifestOf(folder).cpu !== undefined;
}

/** Returns the installed dependencies that fit glibc, the C library of the images. */
function dependenciesOf(folder: string): Package[] {
  const { dependencies, optionalDependencies, peerDependencies } = manifestOf(folder);
  const names = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies });
  const found = names.flatMap((name) => packagesOf(name, [join(folder, 'package.json')]));
  return found.filter((one) => [manifestOf(one.folder).libc ?? 'glibc'].flat().includes('glibc'));
}

/** Returns the package that the first of these files resolves, or none. */
function packagesOf(name: string, importers: readonly string[]): Package[] {
  const [folder] = importers.flatMap((importer) => findPackage(name, importer) ?? []);
  return folder === undefined ? [] : [{ name, folder }];
}

/**
 * Returns the folder in which Node finds a package for the file `importer`. Does not resolve package.json, because a
 * package may hide it.
 */
export function findPackage(name: string, importer: string): string | undefined {
  // Some packages have the name of a Node module, which `resolve` would return instead.
  const folders = createRequire(importer).resolve.paths(`${name}/`) ?? [];
  const found = folders.map((folder) => join(folder, name)).find((folder) => existsSync(join(folder, 'package.json')));
  return found === undefined ? undefined : realpathSync(found);
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => slashed(folder, join(entry.parentPath, entry.name)));
}

export const NPM_NAMES = { x86_64: 'x64', arm64: 'arm64' } as const;

/** @throws Error with a remedy, if there are native files and none is for the processor */
function refuseOtherProcessor(name: string, native: readonly string[], architecture: ProcessorName | undefined): void {
  if (native.length === 0) return;
  if (architecture === undefined) {
    throw new Error(
      `${name}: expected a package without native code in a transform that is published, because hosts of any processor ` +
        `may fetch it, got ${basename(native[0] ?? '')}; build the models into the image instead, or replace the package`,
    );
  }
  if (native.some((file) => processorOf(file) === architecture)) return;
  throw new Error(
    `${name}: expected native code for Linux on ${architecture}, got ${basename(native[0] ?? '')} for another platform; run ` +
      `npm install --os=linux --cpu=${NPM_NAMES[architecture]} --libc=glibc ${name}, or choose the architecture that it is built for`,
  );
}

/** Processors by their number in ELF files, at byte 18. */
const MACHINES: Readonly<Record<number, ProcessorName>> = { 62: 'x86_64', 183: 'arm64' };
const ELF = '\x7fELF';

function processorOf(path: string): ProcessorName | undefined {
  const file = openSync(path, 'r');
  try {
    const head = Buffer.alloc(20);
    readSync(file, head);
    return head.toString('latin1', 0, 4) === ELF ? MACHINES[head.readUInt16LE(18)] : undefined;
  } finally {
    closeSync(file);
  }
}
