// Adds to the compiled files, for `npm run build`: the files that images are made of, and the construct for apps that
// `require` it.

import { copyFileSync, cpSync, writeFileSync } from 'node:fs';
import { bundle } from './image/bundle.ts';
import { bundleHost } from './image/stageImage.ts';

for (const file of ['Dockerfile', 'cuda.txt', 'cufft.txt', 'onnxruntime-license.txt']) {
  copyFileSync(`infra/image/${file}`, `dist/infra/image/${file}`);
}
for (const host of ['lambda', 'worker'] as const) bundleHost(host, `dist/infra/hosts/${host}`);

// The construct is one file because Jest and older versions of Node cannot `require` dependencies that are ES modules.
// It is in infra/image because its code looks for files beside it.
bundle({
  absWorkingDir: process.cwd(),
  entryPoints: ['dist/infra/index.js'],
  outfile: 'dist/infra/image/construct.cjs',
  target: 'node22',
  format: 'cjs',
  external: ['aws-cdk-lib', 'constructs'],
  define: { 'import.meta.url': 'moduleUrl' },
  banner: { js: "const moduleUrl = require('node:url').pathToFileURL(__filename).href;" },
});

// TypeScript takes the format of a declaration from the package.json above it.
for (const part of ['infra', 'lambda']) {
  cpSync(`dist/${part}`, `dist/cjs/${part}`, {
    recursive: true,
    filter: (file) => !/\.[^./]+$/.test(file) || file.endsWith('.d.ts'),
  });
}
writeFileSync('dist/cjs/package.json', '{ "type": "commonjs" }\n');
