import { parseOptions, runCommand, UsageError, wholeNumber } from '../cli/arguments.ts';
import { MAXIMUM_CONCURRENCY } from '../cli/local/localStack.ts';
import { poissonArrivals, simulateMapping } from '../cli/profile/settings/simulate.ts';
import { digitRequest, startDigits, warn } from './host/digits.ts';
import { invocationTimes } from './host/invocationTimes.ts';
import { measureHost } from './host/measureHost.ts';
import { table } from './report/markdownTable.ts';

const DEFAULT = { rates: '10,50,250', seconds: '30', 'batch-size': '100', window: '1' };

const HELP = `Usage: npm run bench:settings -- [options]

Compares the model of the event source mapping with the local host: digits are sent at random, at several rates, and
scored by the real handler. It prints the messages of an invocation, as a share of the batch size, and the age of messages
when they are answered, as the model has them and as they were. It ends with 1 where fill or p99 age differ by more than
15 %. Run it while nothing else does.

  --rates N[,N…]   messages a second (default ${DEFAULT.rates})
  --seconds N      how long each is sent (default ${DEFAULT.seconds})
  --batch-size N   most messages of an invocation (default ${DEFAULT['batch-size']})
  --window S       longest wait for a batch to fill (default ${DEFAULT.window})
  --help           show this
`;

/** The model is asked for many more messages than are sent. */
const SIMULATED = 50_000;
const MOST_DIFFERENT = 0.15;

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args, {
    rates: { type: 'string', default: DEFAULT.rates },
    seconds: { type: 'string', default: DEFAULT.seconds },
    'batch-size': { type: 'string', default: DEFAULT['batch-size'] },
    window: { type: 'string', default: DEFAULT.window },
    help: { type: 'boolean', default: false },
  });
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const rates = options.rates.split(',').map((rate) => wholeNumber('--rates', rate, 1, 1_000));
  const seconds = wholeNumber('--seconds', options.seconds, 1, 3_600);
  const batchSize = wholeNumber('--batch-size', options['batch-size'], 1, 1_000);
  const windowSeconds = wholeNumber('--window', options.window, 0, 10);
  if (batchSize > 10 && windowSeconds === 0)
    throw new UsageError('--window: expected at least 1 with batches above 10');
  const body = await digitRequest();
  const stack = await startDigits();
  const rows: string[][] = [];
  let within = true;
  try {
    const invocationMs = await invocationTimes(stack, body);
    warn(
      `an invocation takes ${[1, 10, 100].map((size) => `${invocationMs(size).toFixed(1)} ms with ${size}`).join(', ')}`,
    );
    for (const rate of rates) {
      const mapping = { batchSize, windowMs: windowSeconds * 1000, maximumConcurrency: MAXIMUM_CONCURRENCY };
      const predicted = simulateMapping(poissonArrivals(rate, SIMULATED).times, mapping, invocationMs);
      const sent = poissonArrivals(rate, rate * seconds).times;
      const measured = await measureHost(stack, { batchSize, windowSeconds }, sent, body);
      const fills = [predicted.messages / predicted.invocations / batchSize, measured.batch / batchSize] as const;
      const ages = [predicted.p99Ms, measured.p99Ms] as const;
      const isWithin = [fills, ages].every(([model, host]) => Math.abs(model / host - 1) <= MOST_DIFFERENT);
      within &&= isWithin;
      rows.push([
        String(rate),
        ...fills.map((fill) => `${(100 * fill).toFixed(1)} %`),
        difference(fills),
        ...[predicted.p50Ms, measured.p50Ms, ...ages].map((ms) => ms.toFixed(0)),
        difference(ages),
        isWithin ? 'yes' : 'no',
      ]);
    }
  } finally {
    await stack.stop();
  }
  process.stdout.write(`${table(HEADS, rows)}\n`);
  return within ? 0 : 1;
}

const HEADS = [
  'messages/s',
  'fill, model',
  'fill, host',
  'differs by',
  'p50 ms, model',
  'p50 ms, host',
  'p99 ms, model',
  'p99 ms, host',
  'differs by',
  'within 15 %',
];

function difference([model, host]: readonly [number, number]): string {
  return `${(100 * (model / host - 1)).toFixed(1)} %`;
}

await runCommand(main);
