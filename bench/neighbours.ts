import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import { parseOptions, runCommand, wholeNumber } from '../cli/arguments.ts';
import { dollarsPerMillionRows } from '../cli/demo/dollars.ts';
import { type LocalStack, MAXIMUM_CONCURRENCY } from '../cli/local/localStack.ts';

import { poissonArrivals } from '../cli/profile/settings/simulate.ts';
import { digitRequest, startDigits, warn } from './host/digits.ts';
import { measureHost } from './host/measureHost.ts';
import { median } from './measure/contest.ts';
import { table } from './report/markdownTable.ts';

const DEFAULT = { rate: '100', seconds: '10', rounds: '3' };

const HELP = `Usage: npm run bench:neighbours -- [options]

Follows the recommendation of batchscore profile for the digits model on the local host, and measures what a million rows
cost with it, with half of its batch size and with twice of it. It ends with 1 where one of these is cheaper.

  --arrival-rate N  messages a second, at random (default ${DEFAULT.rate})
  --seconds N       how long they are sent, each time (default ${DEFAULT.seconds})
  --rounds N        how often, in turn (default ${DEFAULT.rounds})
  --help            show this
`;

const COMMAND = fileURLToPath(new URL('../cli/batchscore.ts', import.meta.url));
const MODEL = fileURLToPath(new URL('../models/digits', import.meta.url));
const PROFILE = z.object({ recommendation: z.object({ batchSize: z.int(), windowSeconds: z.int() }) });
/** Costs that differ by less are the same. */
const SAME = 0.01;

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args, {
    'arrival-rate': { type: 'string', default: DEFAULT.rate },
    seconds: { type: 'string', default: DEFAULT.seconds },
    rounds: { type: 'string', default: DEFAULT.rounds },
    help: { type: 'boolean', default: false },
  });
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const rate = wholeNumber('--arrival-rate', options['arrival-rate'], 1, 1_000);
  const seconds = wholeNumber('--seconds', options.seconds, 1, 3_600);
  const rounds = wholeNumber('--rounds', options.rounds, 1, 100);
  const { batchSize, windowSeconds } = await recommendation(rate);
  const sizes = [Math.max(1, batchSize >> 1), batchSize, 2 * batchSize];
  const figures = sizes.map((size) => ({
    size,
    dollars: [] as number[],
    batches: [] as number[],
    p99Ms: [] as number[],
  }));
  const stack = await startDigits();
  try {
    for (let round = 0; round < rounds; round++) {
      for (const { size, dollars, batches, p99Ms } of figures) {
        const host = await measure(stack, { batchSize: size, windowSeconds }, rate, seconds);
        dollars.push(host.dollars);
        batches.push(host.batch);
        p99Ms.push(host.p99Ms);
      }
    }
  } finally {
    await stack.stop();
  }
  const costs = figures.map(({ dollars }) => median(dollars));
  const rows = figures.map(({ size, batches, p99Ms }, index) => [
    size === batchSize ? `${size}, recommended` : String(size),
    String(windowSeconds),
    median(batches).toFixed(1),
    median(p99Ms).toFixed(0),
    (costs[index] as number).toFixed(3),
  ]);
  process.stdout.write(`${table(['batch size', 'window s', 'messages', 'p99 ms', '$/M rows'], rows)}\n`);
  return (costs[1] as number) <= (1 + SAME) * Math.min(...costs) ? 0 : 1;
}

async function recommendation(rate: number): Promise<z.infer<typeof PROFILE>['recommendation']> {
  const args = [COMMAND, 'profile', MODEL, '--json', '--no-write', '--arrival-rate', String(rate)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return PROFILE.parse(JSON.parse(stdout)).recommendation;
}

async function measure(
  stack: LocalStack,
  batching: { readonly batchSize: number; readonly windowSeconds: number },
  rate: number,
  seconds: number,
): Promise<{ readonly dollars: number; readonly batch: number; readonly p99Ms: number }> {
  const body = await digitRequest();
  const host = await measureHost(stack, batching, poissonArrivals(rate, rate * seconds).times, body);
  const dollars = dollarsPerMillionRows({
    ...host,
    seconds,
    messageBytes: Buffer.byteLength(body),
    packedResults: false,
    maximumConcurrency: MAXIMUM_CONCURRENCY,
  });
  const { batch, p99Ms, invocations } = host;
  warn(`batch size ${batching.batchSize}: ${dollars.toFixed(3)} $ a million rows, ${invocations.length} invocations`);
  return { dollars, batch, p99Ms };
}

await runCommand(main);
