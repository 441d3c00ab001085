/**
 * Runs docs/recipes.md as it is printed: writes its files, runs its commands in their order in one shell, in a copy of the
 * repository, and compares what they print. Then it has the page's exporters refuse models. Packages come from PyPI, Maven
 * Central and Go's proxy.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { blocksOf } from './blocks.ts';
import { isPrinted, type Step, scriptOf, stepsOf } from './script.ts';

const REPOSITORY = resolve(import.meta.dirname, '../../..');
const TOOLS = {
  bash: 'bash',
  git: 'git',
  python3: 'python3 and python3-venv',
  java: 'default-jdk-headless',
  mvn: 'maven',
  go: 'golang-go',
};
/** What `npm run -s dev` listens on. */
const PORT = '4566';

const HELP = `Usage: npm run test:recipes -- [options]

Runs docs/recipes.md as it is printed, in a copy of the repository. It took seven minutes on two busy cores,
most of them for downloads from PyPI, Maven Central and Go's proxy, and some 6 GB.

  --port N    stands in for ${PORT} wherever the page has it
`;

const { values } = parseArgs({
  options: { port: { type: 'string', default: PORT }, help: { type: 'boolean' } },
});
if (values.help) {
  process.stdout.write(HELP);
} else {
  process.exitCode = await main(values.port);
}

async function main(port: string): Promise<number> {
  const missing = Object.entries(TOOLS).filter(([command]) => !isOnPath(command));
  for (const [command, packages] of missing) {
    process.stderr.write(
      `recipes: expected '${command}' on the path, found none; on Debian: apt-get install ${packages}\n`,
    );
  }
  if (missing.length > 0) return 1;

  const folder = copyOfRepository();
  const page = readFileSync(join(REPOSITORY, 'docs/recipes.md'), 'utf8');
  const steps = stepsOf(blocksOf(atPort(page, port)));
  process.stdout.write(`${steps.length} blocks of docs/recipes.md in ${folder}\n`);
  const shell = spawn('bash', ['-c', scriptOf(steps)], { cwd: folder, stdio: ['ignore', 'inherit', 'inherit'] });
  const [code, signal] = await once(shell, 'exit');
  const ended = steps.flatMap((step, index) => {
    const path = join(folder, '.printed', String(index));
    return existsSync(path) ? [{ step, printed: readFileSync(path, 'utf8') }] : [];
  });
  const last = code === 0 ? undefined : ended.pop();
  if (last !== undefined) {
    process.stdout.write(`✕ ${nameOf(last.step)}: ended with ${code ?? signal}\n${indent(last.step.block.text)}`);
    process.stdout.write(`  printed\n${indent(last.printed)}`);
  }
  const wrong = ended.filter(({ step, printed }) => !isPrinted(step.printed ?? '…', printed));
  for (const { step, printed } of wrong) {
    process.stdout.write(`✕ ${nameOf(step)}: expected\n${indent(step.printed ?? '')}  got\n${indent(printed)}`);
  }
  process.stdout.write(
    `${ended.length} of ${steps.length} blocks ran, ${wrong.length} of them printed something else\n`,
  );
  if (code !== 0 || wrong.length > 0 || !refusesWrongFiles(folder)) return 1;
  rmSync(folder, { recursive: true });
  return 0;
}

/** Whether the page's exporters, with the packages that it installs, leave no file that would score wrongly. */
function refusesWrongFiles(folder: string): boolean {
  const script = join(REPOSITORY, 'test/system/recipes/refused.py');
  return spawnSync('.venv/bin/python', ['-W', 'ignore', script], { cwd: folder, stdio: 'inherit' }).status === 0;
}

function isOnPath(command: string): boolean {
  return (process.env.PATH ?? '').split(delimiter).some((directory) => {
    try {
      accessSync(join(directory, command), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** What git has of the repository, with what was changed, and its packages. */
function copyOfRepository(): string {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-recipes-'));
  const listed = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const files = execFileSync('git', listed, { cwd: REPOSITORY, encoding: 'utf8' }).split('\0');
  for (const file of files.filter((file) => file !== '' && existsSync(join(REPOSITORY, file)))) {
    cpSync(join(REPOSITORY, file), join(folder, file));
  }
  symlinkSync(join(REPOSITORY, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

function atPort(page: string, port: string): string {
  if (port === PORT) return page;
  return page
    .replaceAll(PORT, port)
    .replaceAll(/npm run -s dev(?: --)? (?=[->])/g, `npm run -s dev -- --port ${port} `);
}

function nameOf({ block }: Step): string {
  return `${block.section}${block.language === 'sh' ? '' : `, ${block.name}`}`;
}

function indent(text: string): string {
  return `${text.trimEnd()}\n`.replaceAll(/^(?=.)/gm, '    ');
}
