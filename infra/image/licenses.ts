import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Metafile } from 'esbuild';
import * as z from 'zod';

/** File beside a bundle with the licence texts of the packages in it. */
const LICENSES = 'THIRD-PARTY-LICENSES';

const RULE = '='.repeat(80);

/**
 * Writes the licence texts of all packages whose code is in a bundle.
 *
 * @param folder of the bundle
 * @param root that the paths in `metafile` begin at
 * @throws Error naming the first package that has no licence text and no licence with a known one
 */
export function writeLicenses(folder: string, root: string, { outputs }: Metafile): void {
  const files = Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([file, { bytesInOutput }]) => (bytesInOutput > 0 ? [file] : [])),
  );
  const packages = new Set(files.flatMap((file) => PACKAGE_FOLDER.exec(file)?.[0] ?? []));
  const sections = Array.from(packages, (path) => sectionOf(join(root, path))).toSorted();
  const head = 'The code beside this file holds parts of these packages, under these licences.\n';
  writeFileSync(join(folder, LICENSES), [head, ...sections.map((section) => `${RULE}\n${section}`)].join('\n'));
}

const PACKAGE_FOLDER = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/;

const MANIFEST = z.object({
  name: z.string(),
  version: z.string(),
  license: z.string().optional(),
  author: z.union([z.string(), z.object({ name: z.string() }).transform(({ name }) => name)]).optional(),
});
type Manifest = z.infer<typeof MANIFEST>;

const LICENSE_FILE = /^(licen[cs]e|copying|notice)/i;

function sectionOf(folder: string): string {
  const manifest = MANIFEST.parse(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')));
  const files = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile());
  const texts = files.flatMap(({ name }) =>
    LICENSE_FILE.test(name) ? [readFileSync(join(folder, name), 'utf8')] : [],
  );
  const text = texts.length > 0 ? texts.join('\n') : standardText(manifest);
  return `${manifest.name} ${manifest.version}\n\n${text.replaceAll('\r', '').trim()}\n`;
}

/** Returns the text of the licence that a package only names, with those whom it names as its authors. */
function standardText({ name, license = 'none', author = `the authors of ${name}` }: Manifest): string {
  const known: typeof import('spdx-license-list/full.js') = createRequire(import.meta.url)('spdx-license-list/full.js');
  const text = known[license]?.licenseText;
  if (text === undefined) {
    throw new Error(`${name}: expected a licence text or the SPDX name of one, got ${license}; leave the package out`);
  }
  return text.replace(/<year> <copyright holders>/i, author).replace(/<year> <copyright holder>/i, author);
}
