/**
 * Breaks the product on purpose, one promise at a time, in a copy of the working tree, and runs the nearest tests: `npm run
 * mutate`. Ends with 1 if more survive than `MAX_SURVIVORS`, or if one is stale.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { asksForHelp, type Main, parseOptions, runCommand, UsageError, wholeNumber } from '../../cli/arguments.ts';
import { REPOSITORY } from '../helpers/command.ts';
import { applied, MUTATIONS, type Mutation } from './mutations.ts';

const USAGE = `usage: npm run mutate -- [--from N] [--to M]

  --from  number of the first mutation, from 1 to ${MUTATIONS.length}. Default 1
  --to    number of the last one. Default ${MUTATIONS.length}`;

const MAX_SURVIVORS = 3;
/** A mutation that hangs what it breaks is found too. */
const LONGEST_MS = 600_000;

const main: Main = async (args) => {
  if (asksForHelp(args)) {
    console.log(USAGE);
    return 0;
  }
  const text = { type: 'string' } as const;
  const values = parseOptions(args, { from: text, to: text });
  const from = wholeNumber('--from', values.from ?? '1', 1, MUTATIONS.length);
  const to = wholeNumber('--to', values.to ?? String(MUTATIONS.length), 1, MUTATIONS.length);
  if (to < from) throw new UsageError(`--to: expected at least ${from}, got ${to}`);

  const copy = await mkdtemp(join(tmpdir(), 'batchscore-mutate-'));
  let survivors = 0;
  try {
    await copyTree(copy);
    for (const [index, mutation] of MUTATIONS.slice(from - 1, to).entries()) {
      const startedAt = performance.now();
      const red = await tryOut(mutation, copy);
      if (red === undefined) survivors += 1;
      const verdict = red ?? `SURVIVES ${mutation.tests.join(' ')}`;
      const seconds = Math.round((performance.now() - startedAt) / 1000);
      console.log(`${from + index}. ${mutation.breaks} (${mutation.file}): ${verdict}, ${seconds} s`);
    }
  } finally {
    await rm(copy, { recursive: true });
  }
  console.log(`${to - from + 1} mutations, ${survivors} survive, at most ${MAX_SURVIVORS} may`);
  return survivors > MAX_SURVIVORS ? 1 : 0;
};

/** Copies what git knows or would take. The packages are shared. */
async function copyTree(copy: string): Promise<void> {
  const args = ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate', '-z'];
  const listed = execFileSync('git', args, { cwd: REPOSITORY, encoding: 'utf8' });
  for (const path of listed.split('\0').filter((one) => one !== '')) {
    await cp(join(REPOSITORY, path), join(copy, path), { recursive: true });
  }
  await symlink(join(REPOSITORY, 'node_modules'), join(copy, 'node_modules'));
}

/** Tests that are green as long as nothing is broken. */
const greenWithout = new Set<string>();

/**
 * Runs the tests of a mutation one after the other. @returns those that turn red first, if any do
 *
 * @throws Error if they are red without it, too
 */
async function tryOut(mutation: Mutation, copy: string): Promise<string | undefined> {
  const file = join(copy, mutation.file);
  const before = await readFile(file, 'utf8');
  for (const tests of mutation.tests) {
    await writeFile(file, applied(mutation, before));
    const survives = await areGreen(tests, copy);
    await writeFile(file, before);
    if (survives) continue;
    if (!greenWithout.has(tests) && !(await areGreen(tests, copy)))
      throw new Error(`expected test/${tests} to be green without any mutation, it is red; mend it first`);
    greenWithout.add(tests);
    return tests;
  }
  return undefined;
}

async function areGreen(tests: string, copy: string): Promise<boolean> {
  const jest = ['node_modules/jest/bin/jest.js', '--bail', `--maxWorkers=${availableParallelism()}`, `test/${tests}`];
  const child = spawn(process.execPath, jest, { cwd: copy, stdio: 'ignore', detached: true });
  const timer = setTimeout(() => child.kill('SIGKILL'), LONGEST_MS);
  const [code] = await once(child, 'close');
  clearTimeout(timer);
  try {
    // Tests of what is broken may leave processes behind.
    process.kill(-Number(child.pid), 'SIGKILL');
  } catch {
    // None is left.
  }
  return code === 0;
}

await runCommand(main);
