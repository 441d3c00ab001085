import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { extname } from 'node:path';
import { DARK, LIGHT, variablesOf } from '../../profile/page/markup.ts';

export interface PageFile {
  readonly type: string;
  readonly read: () => Promise<string>;
}

const CSS = 'text/css; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';
const TYPES = new Map([
  ['.html', 'text/html; charset=utf-8'],
  ['.css', CSS],
  ['.js', SCRIPT],
  ['.svg', 'image/svg+xml'],
]);

const FOLDER = new URL('browser/', import.meta.url);

/** All that is served to browsers, by its path: nothing else can be read. */
export const FILES: ReadonlyMap<string, PageFile> = new Map<string, PageFile>([
  ...readdirSync(FOLDER).flatMap((name): [string, PageFile][] => {
    const type = TYPES.get(extname(name));
    const path = name === 'index.html' ? '/' : `/${name}`;
    return type === undefined ? [] : [[path, { type, read: () => readFile(new URL(name, FOLDER), 'utf8') }]];
  }),
  ['/theme.css', { type: CSS, read: async () => theme() }],
  ['/uplot.css', { type: CSS, read: () => ofUplot('uPlot.min.css') }],
  ['/uplot.js', { type: SCRIPT, read: () => ofUplot('uPlot.esm.js') }],
]);

function ofUplot(name: string): Promise<string> {
  return readFile(createRequire(import.meta.url).resolve(`uplot/dist/${name}`), 'utf8');
}

/** The colours of the profile's page. */
function theme(): string {
  return `:root{color-scheme:light dark;${variablesOf(LIGHT)}}
@media (prefers-color-scheme:dark){:root{${variablesOf(DARK)}}}
`;
}
