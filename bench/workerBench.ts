import { parseOptions, runCommand, UsageError, wholeNumber } from '../cli/arguments.ts';
import { assessWorker, measureWorker, PACKINGS, type Packing, workerTable } from './measure/workerCosts.ts';
import { targetTable } from './report/markdownTable.ts';

const HELP = `Usage: npm run bench:worker -- [options]

What a request costs the worker, single and packed, with a small MLP: the CPU of its process, in
turns with that of a loop that only receives, sends and deletes. A server that answers as SQS does
runs in a process of its own, over TLS, all on this machine. It takes some three minutes; run it
while nothing else does. BATCHSCORE_… environment variables tune the worker, so that settings can be
compared.

  --packed LIST  what shares messages: none, results, both, comma-separated (default all of these)
  --requests N   requests in a turn, six times as many where they are packed (default 5000)
  --rounds N     turns of each contestant, after its warm-up (default 7)
  --json         print JSON instead of Markdown tables
  --help         show this
`;

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args, {
    packed: { type: 'string', default: Object.keys(PACKINGS).join(',') },
    requests: { type: 'string', default: '5000' },
    rounds: { type: 'string', default: '7' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  });
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const packings = options.packed.split(',');
  if (!packings.every(isPacking)) {
    throw new UsageError(`--packed: expected ${Object.keys(PACKINGS).join(', ')}, got '${options.packed}'`);
  }
  const figures = await measureWorker({
    packings,
    requests: wholeNumber('--requests', options.requests, 100, 1_000_000),
    rounds: wholeNumber('--rounds', options.rounds, 1, 1_000),
    say: (progress) => void process.stderr.write(`${progress}\n`),
  });
  const tables = `${workerTable(figures)}\n\n${targetTable(assessWorker(figures))}`;
  process.stdout.write(`${options.json ? JSON.stringify(figures) : tables}\n`);
  return 0;
}

function isPacking(text: string): text is Packing {
  return Object.hasOwn(PACKINGS, text);
}

await runCommand(main);
