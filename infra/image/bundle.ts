import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { BuildOptions, Metafile } from 'esbuild';
import * as z from 'zod';

/** File beside a bundle with the licence texts of its packages. */
export const LICENSES = 'THIRD-PARTY-LICENSES';

/**
 * Bundles code for Node with all its imports, and writes the licence texts of its packages beside it.
 *
 * @throws Error naming a package that has neither a licence text nor the name of a known licence
 */
export function bundle({ absWorkingDir, ...options }: BuildOptions & { readonly absWorkingDir: string }): void {
  const { buildSync }: typeof import('esbuild') = createRequire(import.meta.url)('esbuild');
  const { metafile } = buildSync({
    bundle: true,
    platform: 'node',
    mainFields: ['module', 'main'],
    ...options,
    absWorkingDir,
    metafile: true,
  });
  const folder = options.outdir ?? dirname(options.outfile ?? '');
  writeFileSync(join(folder, LICENSES), licensesOf(metafile, absWorkingDir, standardText) ?? '');
}

const PACKAGE_FOLDER = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/;
const RULE = '='.repeat(80);

/**
 * Returns the licence texts of the packages in a bundle. Undefined if there are no packages.
 *
 * @param root of the paths in `metafile`
 * @param textOf returns the licence of a package without a text
 */
export function licensesOf(
  { outputs }: Metafile,
  root: string,
  textOf: (manifest: Manifest) => string,
): string | undefined {
  const files = Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([file, { bytesInOutput }]) => (bytesInOutput > 0 ? [file] : [])),
  );
  const packages = new Set(files.flatMap((file) => PACKAGE_FOLDER.exec(file)?.[0] ?? []));
  const sections = Array.from(packages, (path) => `${RULE}\n${sectionOf(join(root, path), textOf)}`);
  if (sections.length === 0) return undefined;
  return ['The code beside this file holds parts of these packages.\n', ...sections.toSorted()].join('\n');
}

const MANIFEST = z.object({
  name: z.string(),
  version: z.string().catch(''),
  // Old packages have objects here.
  license: z.string().optional().catch(undefined),
  author: z
    .union([z.string(), z.object({ name: z.string() }).transform(({ name }) => name)])
    .optional()
    .catch(undefined),
});

type Manifest = z.infer<typeof MANIFEST>;

const LICENSE_FILE = /^(licen[cs]e|copying|notice)/i;

function sectionOf(folder: string, textOf: (manifest: Manifest) => string): string {
  const manifest = MANIFEST.parse(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')));
  const files = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile());
  const texts = files.flatMap(({ name }) =>
    LICENSE_FILE.test(name) ? [readFileSync(join(folder, name), 'utf8')] : [],
  );
  const text = texts.length > 0 ? texts.join('\n') : textOf(manifest);
  return `${manifest.name} ${manifest.version}\n\n${text.replaceAll('\r', '').trim()}\n`;
}

/** Returns the standard text of the licence that a package names, with the authors that it names. */
function standardText({ name, license = 'none', author = `the authors of ${name}` }: Manifest): string {
  const known: typeof import('spdx-license-list/full.js') = createRequire(import.meta.url)('spdx-license-list/full.js');
  const text = known[license]?.licenseText;
  if (text === undefined) {
    throw new Error(`${name}: expected a licence text or the SPDX name of one, got ${license}; leave the package out`);
  }
  return text.replace(/<year> <copyright holders?>/i, author);
}
