/**
 * Breaks the product on purpose, one promise at a time, in a copy of the working tree, and runs the nearest tests: `npm run
 * mutate`. Ends with 1 if more survive than `MAX_SURVIVORS`, or if one is stale.
 */
import { execFile, execFileSync } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
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
      const { red, seconds } = await tryOut(mutation, copy);
      if (red.length === 0) survivors += 1;
      const verdict = red.length === 0 ? `SURVIVES ${mutation.tests.join(' ')}` : red.join(' ');
      console.log(
        `${String(from + index).padStart(2)}  ${mutation.breaks} (${mutation.file}): ${verdict}, ${seconds} s`,
      );
    }
  } finally {
    await rm(copy, { recursive: true });
  }
  console.log(`${to - from + 1} mutations, ${survivors} survive, at most ${MAX_SURVIVORS} may`);
  return survivors > MAX_SURVIVORS ? 1 : 0;
};

/** Copies what git knows or would take. The packages are shared. */
async function copyTree(copy: string): Promise<void> {
  const listed = execFileSync(
    'git',
    ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate', '-z'],
    {
      cwd: REPOSITORY,
      encoding: 'utf8',
    },
  );
  for (const path of listed.split('\0').filter((one) => one !== '')) {
    await cp(join(REPOSITORY, path), join(copy, path), { recursive: true });
  }
  await symlink(join(REPOSITORY, 'node_modules'), join(copy, 'node_modules'));
}

/** Runs the tests of a mutation one after the other, until one turns red. @returns those files, below `test/` */
async function tryOut(mutation: Mutation, copy: string): Promise<{ readonly red: string[]; readonly seconds: number }> {
  const file = join(copy, mutation.file);
  const before = await readFile(file, 'utf8');
  await writeFile(file, applied(mutation, before));
  const startedAt = performance.now();
  const red: string[] = [];
  for (const tests of mutation.tests) {
    if (red.length === 0) red.push(...(await redOf(tests, copy)));
  }
  await writeFile(file, before);
  return { red, seconds: Math.round((performance.now() - startedAt) / 1000) };
}

async function redOf(tests: string, copy: string): Promise<string[]> {
  const report = join(copy, 'mutated.json');
  const jest = ['node_modules/jest/bin/jest.js', '--json', `--outputFile=${report}`, '--bail', `test/${tests}`];
  const workers = `--maxWorkers=${availableParallelism()}`;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  execFile(process.execPath, [...jest, workers], { cwd: copy, timeout: LONGEST_MS, maxBuffer: 2 ** 30 }, (error) =>
    resolve(error === null),
  );
  if (await promise) return [];
  const { testResults = [] } = JSON.parse(await readFile(report, 'utf8').catch(() => '{}')) as Report;
  await rm(report, { force: true });
  const failed = testResults
    .filter(({ status }) => status === 'failed')
    .map(({ name }) => relative(join(copy, 'test'), name));
  return failed.length === 0 ? [tests] : failed;
}

interface Report {
  readonly testResults?: readonly { readonly name: string; readonly status: string }[];
}

await runCommand(main);
