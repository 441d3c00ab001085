/**
 * Runs docs/construct.md as it is printed, with the packed package, in twelve settings: apps made by three templates of
 * the last year, with both ends of the range of aws-cdk-lib, on Node 22 and 24. Each installs the package from its tarball
 * and everything else from the npm registry, and runs its own `npm test` and `npx cdk synth`. The third template is the
 * second with the module settings that the CDK's command wrote before NodeNext. Today's library comes with today's
 * command: an older one does not read what it synthesizes. A part of an app's title, such as `swc` or `2.253.0`, runs
 * those apps alone.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { blocksOf } from '../recipes/blocks.ts';
import { scriptOf, stepsOf } from '../recipes/script.ts';

const REPOSITORY = resolve(import.meta.dirname, '../../..');
const { devDependencies } = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8'));

const NODE10 = `sed -i.bak 's/"module": "NodeNext"/"module": "commonjs"/; /"moduleResolution"/d' tsconfig.json\n`;
/** The command that makes an app, and what is changed in it. */
const APPS = [
  { name: 'tsx and @swc/jest', cli: devDependencies['aws-cdk'], change: '' },
  { name: 'ts-node and ts-jest', cli: '2.1118.0', change: '' },
  { name: 'ts-node and ts-jest, node10', cli: '2.1118.0', change: NODE10 },
];
/** Both ends of the range. */
const LIBRARIES = [
  'aws-cdk-lib@2.253.0 constructs@10.5.0',
  ['aws-cdk-lib', 'constructs', 'aws-cdk'].map((name) => `${name}@${devDependencies[name]}`).join(' '),
];
const NODES = [22, 24];
const CHECKS = 'npm test\nnpx cdk synth --quiet\n';

// What npm tells its scripts would configure the npm of the apps.
const own = Object.entries(process.env).filter(([name]) => !name.startsWith('npm_'));
const env = { ...Object.fromEntries(own), BATCHSCORE: REPOSITORY, npm_config_yes: 'true' };

const folder = mkdtempSync(join(tmpdir(), 'batchscore-init-'));
const pack = ['pack', '--silent', '--pack-destination', folder];
const packed = execFileSync('npm', pack, { cwd: REPOSITORY, env, encoding: 'utf8' });
const tarball = join(folder, packed.trim().split('\n').at(-1) ?? '');
const page = readFileSync(join(REPOSITORY, 'docs/construct.md'), 'utf8');

/** The package is packed once, above. */
const PACK_AND_INSTALL = /^\(cd "\$BATCHSCORE".*\nnpm install .*\.tgz\n/m;
if (!PACK_AND_INSTALL.test(page)) throw new Error('expected docs/construct.md to pack and install the package');

const asked = process.argv[2] ?? '';
const passed: string[] = [];
const failed: string[] = [];
for (const { name, cli, change } of APPS) {
  for (const library of LIBRARIES) {
    const title = `${name}, ${library}`;
    if (!title.includes(asked)) continue;
    process.stdout.write(`\n${title}\n`);
    const changed = page
      // One installation: npm loses parts of aws-cdk-lib that it bundles where another version of it was there before.
      .replace('aws-cdk@2 init', `aws-cdk@${cli} init --generate-only`)
      .replace(PACK_AND_INSTALL, `npm install --no-audit --no-fund ${tarball} ${library}\n`)
      .replace(CHECKS, change + NODES.map(checksOn).join(''));
    const steps = stepsOf(blocksOf(changed)).filter(({ block }) => block.language === 'sh' || block.name !== '');
    const cwd = join(folder, `${cli}${change && '-node10'}-${LIBRARIES.indexOf(library)}`);
    mkdirSync(cwd);
    const { status } = spawnSync('bash', ['-c', scriptOf(steps)], { cwd, env, stdio: 'inherit' });
    (status === 0 ? passed : failed).push(title);
  }
}
process.stdout.write(`\n${passed.length} apps passed, ${failed.length} failed\n`);
for (const title of failed) process.stdout.write(`  ${title}, in ${folder}\n`);
if (failed.length === 0) rmSync(folder, { recursive: true });
if (failed.length > 0 || passed.length === 0) process.exitCode = 1;

/** The commands on a version of Node. What they print is of interest only where one fails. */
function checksOn(node: number): string {
  // The inner npx would take the outer one's options for its own.
  const commands = `unset npm_config_call npm_config_package && node --version && ${CHECKS.trim().replaceAll('\n', ' && ')}`;
  return `npx --yes --package node@${node} --call '${commands}' >&3 2>&1\n`;
}
