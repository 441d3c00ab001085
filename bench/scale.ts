import { parseOptions, runCommand, UsageError, wholeNumber } from '../cli/arguments.ts';
import { concurrencyProblems } from '../infra/constructs/checks/concurrency.ts';
import {
  BATCH_SIZE,
  DEFAULT_MAXIMUM_POLLERS,
  FILL,
  mappingProblems,
  SHARDS,
  WINDOW_SECONDS,
} from '../lambda/core/limits.ts';
import { settingsThatHold } from './scale/advise.ts';
import { outcomeOf } from './scale/outcome.ts';
import { renderScale } from './scale/report.ts';
import { RESULTS, type Results, requestsThatFill, type Scenario } from './scale/scenario.ts';

const DEFAULT = {
  rate: '10000',
  pack: '1',
  'request-bytes': '512',
  results: 'queue',
  'result-bytes': '450',
  groups: '10000',
  shards: '1',
  account: '1000',
  'batch-ms': '90',
  'message-ms': '0.066',
  'request-ms': '0.018',
  'cold-ms': '1500',
  memory: '1769',
  seconds: '300',
  seed: '1',
};

const HELP = `Usage: npm run bench:scale -- [options]

Simulates a deployment under a traffic, by what AWS documents of SQS and Lambda: the scaling of the event source mapping,
messages in flight, the account's concurrency and its growth. It prints what breaks first, latency, backlog, concurrency
and messages in flight, and the settings that hold the traffic. Nothing is sent anywhere. The same options and seed print
the same figures.

  --rate N[,N…]         requests a second (default ${DEFAULT.rate}); of one, parts and a multiple are simulated too
  --pack N|fill         requests in a message, or as many as SQS bills as one (default ${DEFAULT.pack})
  --request-bytes N     of a request (default ${DEFAULT['request-bytes']})
  --results WHERE       ${RESULTS.join(', ')}: to the queue one by one or packed, to the table, to the bucket (default ${DEFAULT.results})
  --result-bytes N      of a result (default ${DEFAULT['result-bytes']})
  --fifo                FIFO queues
  --groups N            message groups that have requests at a time, on FIFO queues (default ${DEFAULT.groups})
  --shards N            request queues (default ${DEFAULT.shards})
  --batch-size N        most messages of an invocation (default 100, FIFO 10)
  --window S            longest wait for a batch to fill (default 1, FIFO 0)
  --maximum-concurrency N, --maximum-pollers N, --minimum-pollers N
                        of all shards together, as in the CDK context (default: none)
  --account N           the account's concurrent invocations (default ${DEFAULT.account})
  --batch-ms X, --message-ms X, --request-ms X
                        what an invocation takes, and what each message and each request in it adds (default
                        ${DEFAULT['batch-ms']}, ${DEFAULT['message-ms']} and ${DEFAULT['request-ms']}: 100 ms for a hundred single requests)
  --cold-ms X           what the first invocation of an environment takes longer (default ${DEFAULT['cold-ms']})
  --memory MB           of the function, on arm64, for its cost (default ${DEFAULT.memory})
  --seconds N           how long it is simulated, in tens (default ${DEFAULT.seconds})
  --seed N              of the arrivals (default ${DEFAULT.seed})
  --help                show this
`;

/** Parts and a multiple of one rate. */
const AROUND = [0.1, 0.25, 0.5, 1, 2];
const STRETCH_SECONDS = 10;
const MOST = 1_000_000_000;

async function main(args: readonly string[]): Promise<number> {
  const options = parse(args);
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const scenario = scenarioOf(options);
  const span = {
    seconds: wholeNumber('--seconds', options.seconds, STRETCH_SECONDS, 3_600),
    seed: wholeNumber('--seed', options.seed, 0, MOST),
  };
  if (span.seconds % STRETCH_SECONDS > 0) throw new UsageError(`--seconds: expected tens, got '${options.seconds}'`);
  const asked = options.rate.split(',').map((rate) => wholeNumber('--rate', rate, 1, MOST));
  const simulated = asked.length > 1 ? asked : AROUND.map((part) => Math.ceil(part * Math.max(...asked)));
  const rates = simulated.map((requestsPerSecond) => outcomeOf({ ...scenario, requestsPerSecond }, span));
  const highest = Math.max(...asked);
  const inTime = rates.find((outcome) => outcome.scenario.requestsPerSecond === highest);
  if (inTime === undefined) throw new Error(`expected ${highest} among the rates, got ${simulated.join(', ')}`);
  const advised = new Map(
    asked.map((requestsPerSecond) => [requestsPerSecond, settingsThatHold({ ...scenario, requestsPerSecond }, span)]),
  );
  process.stdout.write(renderScale(scenario, { rates, inTime, advised }));
  return 0;
}

type Options = ReturnType<typeof parse>;

function parse(args: readonly string[]) {
  const withDefault = <const N extends keyof typeof DEFAULT>(name: N) =>
    ({ type: 'string', default: DEFAULT[name] }) as const;
  return parseOptions(args, {
    rate: withDefault('rate'),
    pack: withDefault('pack'),
    'request-bytes': withDefault('request-bytes'),
    results: withDefault('results'),
    'result-bytes': withDefault('result-bytes'),
    fifo: { type: 'boolean', default: false },
    groups: withDefault('groups'),
    shards: withDefault('shards'),
    'batch-size': { type: 'string' },
    window: { type: 'string' },
    'maximum-concurrency': { type: 'string' },
    'maximum-pollers': { type: 'string' },
    'minimum-pollers': { type: 'string' },
    account: withDefault('account'),
    'batch-ms': withDefault('batch-ms'),
    'message-ms': withDefault('message-ms'),
    'request-ms': withDefault('request-ms'),
    'cold-ms': withDefault('cold-ms'),
    memory: withDefault('memory'),
    seconds: withDefault('seconds'),
    seed: withDefault('seed'),
    help: { type: 'boolean', default: false },
  });
}

/** @throws UsageError for what AWS would refuse */
function scenarioOf(options: Options): Scenario {
  const { fifo } = options;
  const whole = (name: keyof typeof DEFAULT & keyof Options, least = 1, most = MOST) =>
    wholeNumber(`--${name}`, options[name], least, most);
  const given = (name: 'maximum-concurrency' | 'maximum-pollers' | 'minimum-pollers') => {
    const text = options[name];
    return text === undefined ? undefined : wholeNumber(`--${name}`, text, 2, MOST);
  };
  const scenario: Scenario = {
    requestsPerSecond: 1,
    requestsPerMessage: 1,
    requestBytes: whole('request-bytes'),
    results: resultsOf(options.results),
    resultBytes: whole('result-bytes', 1, 65_536),
    fifo,
    groups: whole('groups'),
    shards: whole('shards', SHARDS.least, SHARDS.most),
    batchSize: wholeNumber(
      '--batch-size',
      options['batch-size'] ?? (fifo ? '10' : '100'),
      BATCH_SIZE.least,
      BATCH_SIZE.most,
    ),
    windowSeconds: wholeNumber(
      '--window',
      options.window ?? (fifo ? '0' : '1'),
      WINDOW_SECONDS.least,
      WINDOW_SECONDS.most,
    ),
    maximumConcurrency: given('maximum-concurrency'),
    minimumPollers: given('minimum-pollers'),
    maximumPollers: given('maximum-pollers') ?? defaultPollers(options),
    accountConcurrency: whole('account'),
    batchMs: milliseconds('--batch-ms', options['batch-ms']),
    messageMs: milliseconds('--message-ms', options['message-ms']),
    requestMs: milliseconds('--request-ms', options['request-ms']),
    coldMs: milliseconds('--cold-ms', options['cold-ms']),
    memoryMb: whole('memory', 128, 10_240),
  };
  const problems = [
    ...mappingProblems(scenario),
    ...concurrencyProblems(scenario, scenario.shards).filter((problem) => problem !== undefined),
  ];
  if (problems.length > 0) throw new UsageError(problems.join('; '));
  const requestsPerMessage =
    options.pack === FILL ? requestsThatFill(scenario) : wholeNumber('--pack', options.pack, 1, 10_000, FILL);
  return { ...scenario, requestsPerMessage };
}

/** As AWS has it where only the minimum is given. */
function defaultPollers({ 'minimum-pollers': minimum, shards }: Options): number | undefined {
  return minimum === undefined ? undefined : DEFAULT_MAXIMUM_POLLERS * Number(shards);
}

function resultsOf(text: string): Results {
  const results = RESULTS.find((one) => one === text);
  if (results !== undefined) return results;
  throw new UsageError(`--results: expected one of ${RESULTS.join(', ')}, got '${text}'`);
}

function milliseconds(name: string, text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (value >= 0 && value <= 900_000) return value;
  throw new UsageError(`${name}: expected milliseconds from 0 to 900000, got '${text}'`);
}

await runCommand(main);
