/** Adds the bundled browser pages to the compiled commands. `npm run build` runs this file. */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { bundlePage } from './pageFiles.ts';

const TARGET = 'dist/cli/page/browser';

mkdirSync(TARGET, { recursive: true });
for (const file of ['dev.html', 'icon.svg']) copyFileSync(`cli/page/browser/${file}`, `${TARGET}/${file}`);
for (const page of ['dev', 'report'] as const) {
  const { script, style } = await bundlePage(page);
  writeFileSync(`${TARGET}/${page}.js`, script);
  writeFileSync(`${TARGET}/page.css`, style);
}
