import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { REPOSITORY } from '../../helpers/command.ts';
import { sqsRecord } from '../../helpers/handler.ts';
import { LICENSE_TEXT, licensesIn } from '../../helpers/licenses.ts';
import { identityModel } from '../../helpers/onnxModels.ts';
import { afterThisTest, putFile, type RepositoryFiles } from '../../helpers/openModels.ts';
import { filesIn, stageFor } from './staging.ts';

const run = promisify(execFile);
const sqs = useSqsServer();

/** What a `.node` file for a processor begins with. */
function elf(machine: 62 | 183): Buffer {
  const head = Buffer.alloc(64);
  head.write('\x7fELF', 'latin1');
  head.writeUInt16LE(machine, 18);
  return head;
}

const PACKAGES: RepositoryFiles = {
  'node_modules/modern/package.json': {
    name: 'modern',
    version: '1.0.0',
    license: { type: 'MIT' },
    type: 'module',
    exports: './index.js',
  },
  'node_modules/modern/index.js': "import { base } from 'base'; export const modern = 'modern on ' + base;",
  'node_modules/base/package.json': { name: 'base' },
  'node_modules/base/index.js': "exports.base = require('node:path').basename('/x/base');",
  'node_modules/with-files/package.json': { name: 'with-files', dependencies: { base: '1', punycode: '1' } },
  'node_modules/with-files/index.js':
    "const { base } = require('base'); module.exports = require('node:fs').readFileSync(__dirname + '/data.txt', 'utf8') + base + require('punycode/');",
  'node_modules/with-files/data.txt': 'data and ',
  // What esbuild and Node read differently.
  'node_modules/dual/package.json': { name: 'dual', main: 'main.js', module: 'module.js' },
  'node_modules/dual/main.js': "module.exports = { dual: 'main' };",
  'node_modules/dual/module.js': "export const dual = 'module'; export default 'module';",
  'node_modules/compiled/package.json': { name: 'compiled', main: 'main.js' },
  'node_modules/compiled/main.js': 'exports.__esModule = true; exports.default = () => 1;',
  'node_modules/umd/package.json': { name: 'umd', main: 'main.js' },
  'node_modules/umd/main.js':
    "(function (factory) { factory(require, exports); })(function (require, exports) { exports.umd = require('./part.js'); });",
  'node_modules/umd/part.js': "module.exports = 'part';",
  // The name of a module of Node.
  'node_modules/punycode/package.json': { name: 'punycode' },
  'node_modules/punycode/index.js': "module.exports = ' and a package of it';",
  'node_modules/native/package.json': {
    name: 'native',
    optionalDependencies: { '@native/linux': '1', '@native/mac': '1' },
  },
  'node_modules/native/index.js':
    "try { require('@native/linux/x64.node'); } catch {} const name = '@native/linux'; exports.native = require('node:fs').readdirSync(require('node:path').dirname(require.resolve(name + '/package.json'))).join();",
  'node_modules/@native/linux/package.json': { name: '@native/linux', cpu: ['arm64', 'x64'] },
  'node_modules/@native/linux/arm64.node': elf(183),
  'node_modules/@native/linux/x64.node': elf(62),
};

/** A project with a model whose transform imports packages, modules and JSON, and reads files beside it. */
const PROJECT: RepositoryFiles = {
  ...PACKAGES,
  'models/m/1/model.onnx': identityModel(),
  'models/m/config.json': { transform: 'transform.ts' },
  'models/m/labels.json': '["a","b"]',
  'models/m/more-labels.json': '["c"]',
  'models/m/lib/words.txt': 'beside the module',
  'models/m/tables/en.txt': 'in a folder',
  'models/shared.ts': 'export const shared: string = "shared";',
  'models/m/lib/words.ts': `
    import { readFileSync } from 'node:fs';
    import { join } from 'node:path';
    export const words: string = readFileSync(new URL('words.txt', import.meta.url), 'utf8');
    export const again: string = readFileSync(join(import.meta.dirname, 'words.txt'), 'utf8');`,
  'models/m/transform.ts': `
    import { createRequire } from 'node:module';
    import { readFileSync } from 'node:fs';
    import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
    import compiled from 'compiled';
    import dual from 'dual';
    import { modern } from 'modern';
    import umd from 'umd';
    import withFiles from 'with-files';
    import { shared } from '../shared.ts';
    import labels from './labels.json' with { type: 'json' };
    import { again, words } from './lib/words.ts';
    const require = createRequire(import.meta.url);
    const table = readFileSync(new URL(\`tables/\${'en'}.txt\`, import.meta.url), 'utf8');
    const asInNode = [typeof compiled, dual, umd, require('base'), require('./more-labels.json')];
    const found = [typeof DynamoDBClient, modern, withFiles, shared, labels, words, again, table, require('node:os').EOL, asInNode];
    export const encode = (): unknown => found;`,
};
const FOUND = [
  'function',
  'modern on base',
  'data and base and a package of it',
  'shared',
  ['a', 'b'],
  ...Array(2).fill('beside the module'),
  'in a folder',
  '\n',
  ['object', { dual: 'main' }, { umd: 'part' }, { base: 'base' }, ['c']],
];
/** What training leaves, and what nobody is to have. */
const LEFT: RepositoryFiles = {
  'models/m/1/optimizer.pt': 'x',
  'models/m/1/checkpoints/step-1.bin': 'x',
  'models/m/train.csv': 'x',
  'models/m/notebook.ipynb': 'x',
  'models/m/credentials.json': 'x',
  'models/m/other-labels.json': 'x',
  'models/customers.parquet': 'x',
};

async function projectOf(files: RepositoryFiles): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-project-'));
  afterThisTest(async () => rmSync(folder, { recursive: true, force: true }));
  await putFile(join(folder, 'package.json'), { name: 'project' });
  for (const [path, contents] of Object.entries(files)) await putFile(join(folder, path), contents);
  await mkdir(join(folder, 'node_modules/@aws-sdk'), { recursive: true });
  symlinkSync(
    join(REPOSITORY, 'node_modules/@aws-sdk/client-dynamodb'),
    join(folder, 'node_modules/@aws-sdk/client-dynamodb'),
  );
  return folder;
}

/** Starts the handler in a staged folder, as Lambda does, and has it answer a request. @returns the answer, and the log */
async function answerOf(staged: string): Promise<{ readonly result: unknown; readonly log: string }> {
  const [requests, results] = [sqs.queue(), sqs.queue()];
  const event = { Records: [sqsRecord({ instances: [[1, 2, 3]] })] };
  const code = `
    const context = { getRemainingTimeInMillis: () => 20000, awsRequestId: 'r', functionName: 'f', invokedFunctionArn: 'a' };
    import('./handler.js')
      .then(({ handler }) => handler(${JSON.stringify(event)}, context))
      .then((response) => console.error(JSON.stringify(response)));`;
  const env = {
    PATH: process.env.PATH,
    ORT_DISABLE_TELEMETRY: '1',
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'a',
    AWS_SECRET_ACCESS_KEY: 'b',
    AWS_ENDPOINT_URL: new URL(requests).origin,
    BATCHSCORE_MODELS_DIR: join(staged, 'models'),
    BATCHSCORE_REQUEST_QUEUE_URL: requests,
    BATCHSCORE_RESULT_QUEUE_URL: results,
  };
  const { stdout, stderr } = await run(process.execPath, ['--eval', code], { cwd: staged, env });
  expect(stderr).toContain('{"batchItemFailures":[]}');
  const [message] = await sqs.receive(results);
  return { result: JSON.parse(message?.Body ?? '{}').result, log: stdout };
}

describe('a transform in a staged folder', () => {
  it('has its packages, its modules and the files that it reads, wherever it came from; training files are left out', async () => {
    const project = await projectOf({ ...PROJECT, ...LEFT });
    const said: string[] = [];
    const staged = stageFor({ modelsDirectory: join(project, 'models'), inform: (message) => void said.push(message) });
    rmSync(project, { recursive: true });

    expect((await answerOf(staged)).result).toEqual(FOUND);
    expect(filesIn(join(staged, 'models'))).toEqual([
      'm/1/model.onnx',
      'm/THIRD-PARTY-LICENSES',
      'm/config.json',
      'm/lib/words.txt',
      'm/node_modules/base/index.js',
      'm/node_modules/base/package.json',
      'm/node_modules/punycode/index.js',
      'm/node_modules/punycode/package.json',
      'm/node_modules/umd/main.js',
      'm/node_modules/umd/package.json',
      'm/node_modules/umd/part.js',
      'm/node_modules/with-files/data.txt',
      'm/node_modules/with-files/index.js',
      'm/node_modules/with-files/package.json',
      'm/tables/en.txt',
      'm/transform.mjs',
    ]);
    const licenses = licensesIn(join(staged, 'models/m'));
    expect(licenses['@aws-sdk/client-dynamodb']).toMatch(LICENSE_TEXT);
    expect(licenses).toMatchObject({ modern: expect.stringContaining('Licence: none') });
    expect(said).toEqual([
      'left out, because no host needs it: customers.parquet, m/1/checkpoints/, m/1/optimizer.pt, m/credentials.json, ' +
        'm/notebook.ipynb, m/other-labels.json, m/train.csv; what a transform reads is taken if its code names the file',
    ]);
  });

  it.each([
    ["join(here, 'texts')", 'm/texts/en.txt'],
    ["new URL('texts', import.meta.url)", 'm/texts/en.txt'],
    ["here + '/texts'", 'm/texts/en.txt'],
    [`join(here, \`words-\${language}.txt\`)`, 'm/words-en.txt'],
    ["join(here, 'prompt.md')", 'm/prompt.md'],
    ["join(here, '1', 'tokenizer.json')", 'm/1/tokenizer.json'],
  ])('has what is at %s', async (place, file) => {
    const transform = `
      import { readFileSync, statSync } from 'node:fs';
      import { dirname, join } from 'node:path';
      import { fileURLToPath } from 'node:url';
      const [here, language] = [dirname(fileURLToPath(import.meta.url)), 'en'];
      statSync(${place});
      export const encode = (outputs: { data: unknown }) => outputs['data'];`;
    const project = await projectOf({
      ...PROJECT,
      ...LEFT,
      [`models/${file}`]: 'x',
      'models/m/transform.ts': transform,
    });
    const models = join(stageFor({ modelsDirectory: join(project, 'models') }), 'models');
    expect(filesIn(models)).toEqual(['m/1/model.onnx', 'm/config.json', file, 'm/transform.mjs'].toSorted());
    await import(join(models, 'm/transform.mjs'));
  });

  it('may be of CommonJS, with files beside its modules, whatever their names', async () => {
    const project = await projectOf({
      ...PROJECT,
      'models/m/config.json': { transform: 'transform.js' },
      'models/m/transform.js': `
        const { readFileSync } = require('node:fs');
        const { more } = require('./lib/more.cjs');
        const words = readFileSync(require('node:path').join(__dirname, 'wörter liste.txt'), 'utf8');
        exports.encode = () => [words, more];`,
      'models/m/lib/more.cjs': "exports.more = require('node:fs').readFileSync(__dirname + '/more.txt', 'utf8');",
      'models/m/wörter liste.txt': 'words',
      'models/m/lib/more.txt': 'more',
    });
    const staged = stageFor({ modelsDirectory: join(project, 'models') });
    rmSync(project, { recursive: true });
    expect((await answerOf(staged)).result).toEqual(['words', 'more']);
  });

  it('has native code for the processor of the image alone, and is refused by name where there is none', async () => {
    const transform = "import { native } from 'native'; export const encode = () => native;";
    const project = await projectOf({ ...PROJECT, 'models/m/transform.ts': transform });
    const modelsDirectory = join(project, 'models');

    const staged = stageFor({ modelsDirectory });
    expect((await answerOf(staged)).result).toBe('package.json,x64.node');
    const onArm = filesIn(join(stageFor({ modelsDirectory, architecture: 'arm64' }), 'models/m/node_modules'));
    expect(onArm).toContain('@native/linux/arm64.node');
    rmSync(join(project, 'node_modules/@native/linux/arm64.node'));
    expect(() => stageFor({ modelsDirectory, architecture: 'arm64' })).toThrow(
      'native: expected native code for Linux on arm64, got x64.node for another platform; run npm install --os=linux ' +
        '--cpu=arm64 --libc=glibc native, or choose the architecture that it is built for',
    );
    const { code, stderr } = await batchscore(['publish', modelsDirectory, 's3://bucket']);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('native: expected a package without native code in a transform that is published'),
    ]);
  });

  it('is refused where one of two packages has native code for another processor alone', async () => {
    const project = await projectOf({
      ...PROJECT,
      'node_modules/addon/package.json': { name: 'addon' },
      'node_modules/addon/arm64.node': elf(183),
      'node_modules/native/package.json': { name: 'native', dependencies: { '@native/linux': '1', addon: '1' } },
      'models/m/transform.ts': "import { native } from 'native'; export const encode = () => native;",
    });
    expect(() => stageFor({ modelsDirectory: join(project, 'models') })).toThrow(
      'addon: expected native code for Linux on x86_64, got arm64.node for another platform',
    );
  });

  it('is refused where a package is not installed', async () => {
    const project = await projectOf({
      ...PROJECT,
      'models/m/transform.ts': "import 'left-pad'; export const encode = () => 1;",
    });
    expect(() => stageFor({ modelsDirectory: join(project, 'models') })).toThrow(
      `${project}/models/m/transform.ts: expected a module whose imports are there, got: Could not resolve "left-pad"`,
    );
  });
});
