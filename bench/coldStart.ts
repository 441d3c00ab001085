import { parseOptions, runCommand, wholeNumber } from '../cli/arguments.ts';
import { measureColdStarts } from './measure/coldStarts.ts';
import { table } from './report/table.ts';

const HELP = `Usage: npm run bench:cold-start -- [options]

Starts the Lambda entry with one large model, from a folder and from S3 over TLS, all on this
machine: with one connection and with 16, as fast as the machine is, and with what AWS says
one connection to S3 brings. Each start is a process of its own; the table has medians.

  --megabytes N   how large the model is (default 1000)
  --rounds N      starts of each kind (default 3)
  --help          show this
`;

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args, {
    megabytes: { type: 'string', default: '1000' },
    rounds: { type: 'string', default: '3' },
    help: { type: 'boolean', default: false },
  });
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const megabytes = wholeNumber('--megabytes', options.megabytes, 1, 1_900);
  const rounds = wholeNumber('--rounds', options.rounds, 1, 100);
  const figures = await measureColdStarts(megabytes, rounds, (progress) => process.stderr.write(`${progress}\n`));
  const rows = figures.map(({ way, seconds, cpuSeconds, peakRssBytes }) => [
    way,
    seconds.toFixed(1),
    cpuSeconds.toFixed(1),
    (peakRssBytes / 1e6).toFixed(0),
  ]);
  process.stdout.write(`${table([`models of ${megabytes} MB`, 'seconds', 'CPU seconds', 'peak MB'], rows)}\n`);
  return 0;
}

await runCommand(main);
