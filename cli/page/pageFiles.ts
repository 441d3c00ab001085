import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { ReportPage } from './wire.ts';

interface Bundle {
  readonly script: string;
  readonly style: string;
}

const FOLDER = new URL('browser/', import.meta.url);

export function pageFile(name: string): Promise<string> {
  return readFile(new URL(name, FOLDER), 'utf8');
}

/** True if the code runs from source. The package contains bundles instead. */
const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');

/** Returns the bundle of a page. Browsers do not read TypeScript, and a report must not fetch anything. */
export async function bundlePage(name: 'dev' | 'report'): Promise<Bundle> {
  if (!RUNS_FROM_SOURCE) return { script: await pageFile(`${name}.js`), style: await pageFile('page.css') };
  const { build } = await import('esbuild');
  const at = (file: string): string => fileURLToPath(new URL(file, FOLDER));
  const [scripts, styles] = await Promise.all([
    build({ entryPoints: [at(`${name}Script.ts`)], bundle: true, minify: true, format: 'esm', write: false }),
    build({
      stdin: { contents: STYLES, resolveDir: at('.'), loader: 'css' },
      bundle: true,
      minify: true,
      write: false,
    }),
  ]);
  return { script: scripts.outputFiles[0]?.text ?? '', style: styles.outputFiles[0]?.text ?? '' };
}

const STYLES = '@import "uplot/dist/uPlot.min.css"; @import "./theme.css";';

/** Returns a report in one file that fetches nothing, so that users can mail and print it. */
export async function reportPage(report: ReportPage): Promise<string> {
  const { script, style } = await bundlePage('report');
  const code = script.replaceAll('</script', '<\\/script');
  const policy = `default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-${hash('sha256', code, 'base64')}'`;
  // The escape prevents data from closing the element that contains it.
  const data = JSON.stringify(report).replaceAll('<', '\\u003c');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>batchscore profile</title>
<style>${style}</style>
</head>
<body>
<noscript>This report needs JavaScript. profile.json beside it holds what was measured.</noscript>
<script type="application/json" id="report">${data}</script>
<script type="module">${code}</script>
</body>
</html>
`;
}
