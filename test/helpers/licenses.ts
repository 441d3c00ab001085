import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** esbuild says before each module of a bundle which file it is of. */
const MODULE = /^ *\/\/ (?:.*\/)?node_modules\/((?:@[^/]+\/)?[^/]+)\//gm;

/** Names of the packages whose code is in the bundles of a folder. */
export function packagesBundledIn(folder: string): string[] {
  const bundles = readdirSync(folder).filter((file) => /\.c?js$/.test(file));
  const names = bundles.flatMap((file) =>
    [...readFileSync(join(folder, file), 'utf8').matchAll(MODULE)].map(([, name = '']) => name),
  );
  return [...new Set(names)].toSorted();
}

/** Licence texts beside the bundles of a folder, by the names of their packages. */
export function licensesIn(folder: string): Record<string, string> {
  const sections = readFileSync(join(folder, 'THIRD-PARTY-LICENSES'), 'utf8')
    .split(/^=+\n(?=\S+ \d)/m)
    .slice(1);
  return Object.fromEntries(
    sections.map((section) => {
      const [head = '', ...text] = section.split('\n');
      return [head.replace(/ \S+$/, ''), text.join('\n')];
    }),
  );
}

/** What every licence of a package has, beside its name. */
export const LICENSE_TEXT = /Permission (is hereby granted|to use, copy)|Redistribution and use|TERMS AND CONDITIONS/;
