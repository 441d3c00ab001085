/**
 * Runs `npm test` while all cores are busy, to see that no test depends on how quick the machine is: `npm run test:busy`, or
 * `npm run test:busy -- test/guarantees`. What keeps the cores busy ends with the tests, and after half an hour in any case.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';

const LONGEST_MS = 30 * 60_000;
const SPIN = `const end = Date.now() + ${LONGEST_MS}; while (Date.now() < end && process.ppid === ${process.pid});`;

const spinning = Array.from({ length: availableParallelism() }, () =>
  spawn(process.execPath, ['--eval', SPIN], { stdio: 'ignore' }),
);
const tests = spawn('npm', ['test', '--', ...process.argv.slice(2)], { stdio: 'inherit' });
const [code] = await once(tests, 'close');
for (const child of spinning) child.kill('SIGKILL');
process.exitCode = code ?? 1;
