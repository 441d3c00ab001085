#!/usr/bin/env node
// Part of `npm run lint`: how the code is laid out. A file is a module: see "Rules" in CONTRIBUTING.md.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';

/** Most of each that are allowed: lower them when you can, never raise them. */
const ALLOWED = { corridors: 1, scraps: 1, 'file names used twice': 4 };

/** From the bottom up: a file imports nothing of what stands above or beside its own. Folders, or single files. */
const LAYERS = [
  ['lambda/core'],
  ['lambda/jobs/jobFiles.ts'],
  ['lambda/jobs/jobTypes.ts', 'lambda/settings.ts'],
  ['lambda/onnx', 'lambda/aws'],
  ['lambda/scorer'],
  ['lambda/hosts'],
  ['lambda/jobs'],
  ['lambda'],
  ['infra/common'],
  ['infra/image', 'infra/stores'],
  ['infra/compute'],
  ['infra/jobs', 'infra/monitoring'],
  ['infra/constructs'],
  ['client', 'infra'],
  ['cli'],
  ['bench', 'examples'],
];

/** Packages that some folders only may import. */
const PACKAGES = {
  'onnxruntime-node': ['lambda/onnx/', 'bench/'],
  '@middy/': ['lambda/handler.ts', 'lambda/hosts/createHandler.ts', 'lambda/aws/'],
  '@aws-sdk/': ['lambda/aws/', 'lambda/hosts/compose.ts', 'client/', 'cli/', 'bench/', 'examples/'],
  'aws-cdk-lib': ['infra/', 'examples/'],
  fauxqs: ['cli/local/'],
  undici: ['lambda/aws/', 'bench/field/'],
};

const IMPORT = /(?:import|export)\s(?<clause>[^'";]*?)from\s*'(?<from>\.[^']+)'|import\(\s*'(?<lazy>\.[^']+)'\s*\)/gs;
const files = execFileSync('git', ['ls-files', '*.ts', '*.js'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => LAYERS.flat().some((layer) => file.startsWith(`${layer}/`)));
const text = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]));
const lines = (file) => text.get(file).split('\n').length - 1;
const imports = new Map(
  files.map((file) => {
    const targets = [...text.get(file).matchAll(IMPORT)].map(({ groups }) => ({
      to: normalize(join(dirname(file), groups.from ?? groups.lazy)),
      isType: groups.clause?.startsWith('type ') ?? false,
      isLazy: groups.lazy !== undefined,
    }));
    return [file, targets.filter(({ to }) => text.has(to))];
  }),
);
const importersOf = (file) => files.filter((from) => imports.get(from).some(({ to }) => to === file));
/** Files that must not load with their only importer. */
const lazyFiles = new Set([...imports.values()].flat().flatMap(({ to, isLazy }) => (isLazy ? [to] : [])));

const faults = [];
/** The longest of those that a file lies in. */
const layerOf = (file) =>
  LAYERS.flat()
    .filter((layer) => `${file}/`.startsWith(`${layer}/`))
    .sort((a, b) => b.length - a.length)[0];
const rankOf = (layer) => LAYERS.findIndex((layers) => layers.includes(layer));
for (const file of files) {
  for (const { to } of imports.get(file)) {
    const [from, target] = [layerOf(file), layerOf(to)];
    if (target !== from && rankOf(target) >= rankOf(from))
      faults.push(`${file} imports ${to}, which does not stand below it: see LAYERS in .ci/house.js`);
  }
}
for (const [name, allowed] of Object.entries(PACKAGES)) {
  for (const file of files) {
    const imports = text.get(file).includes(`from '${name}`);
    if (imports && !allowed.some((folder) => file.startsWith(folder))) {
      faults.push(`${file} imports ${name}, which only ${allowed.join(', ')} may: see PACKAGES in .ci/house.js`);
    }
  }
}

for (const file of files.filter((one) => /^cli\/.*\.ts$/.test(one) && one !== 'cli/terminal.ts')) {
  if (/\bstd(out|err)\.write\(|\bconsole\./.test(text.get(file))) {
    faults.push(
      `${file} prints past writeLine and writeText of cli/terminal.ts, which make a text harmless to a terminal`,
    );
  }
}

const state = new Map();
const visit = (file, way) => {
  if (state.get(file) === 'done') return;
  if (state.get(file) === 'open') {
    faults.push(`imports in a circle: ${[...way.slice(way.indexOf(file)), file].join(' -> ')}`);
    return;
  }
  state.set(file, 'open');
  for (const { to, isType } of imports.get(file)) if (!isType) visit(to, [...way, file]);
  state.set(file, 'done');
};
for (const file of files) visit(file, []);

const twins = new Map();
for (const file of files) twins.set(basename(file), [...(twins.get(basename(file)) ?? []), file]);
const found = {
  corridors: files.flatMap((file) => {
    const [only, ...others] = importersOf(file);
    const isBesideOnly = only !== undefined && others.length === 0 && dirname(only) === dirname(file);
    const isCorridor = isBesideOnly && lines(file) < 120 && !lazyFiles.has(file);
    return isCorridor ? [`${file} has one importer, beside it: fold it into ${basename(only)}`] : [];
  }),
  scraps: files.flatMap((file) => {
    const importers = importersOf(file);
    const isScrap = lines(file) < 60 && importers.length > 0 && importers.length < 3;
    return isScrap
      ? [`${file} has ${lines(file)} lines and ${importers.length} importers: fold it into one of them`]
      : [];
  }),
  'file names used twice': [...twins]
    .filter(([name, of]) => of.length > 1 && !/^(app|index)\./.test(name))
    .map(([, of]) => `${of.join(' and ')} have one name`),
};
for (const [kind, list] of Object.entries(found)) {
  console.log(`${kind}: ${list.length}, at most ${ALLOWED[kind]}`);
  if (list.length > ALLOWED[kind])
    faults.push(`expected at most ${ALLOWED[kind]} ${kind}, got ${list.length}:`, ...list.map((line) => `  ${line}`));
}
console.log(`${files.length} files, ${files.reduce((sum, file) => sum + lines(file), 0)} lines`);
for (const fault of faults) console.error(fault);
process.exitCode = faults.length > 0 ? 1 : 0;
