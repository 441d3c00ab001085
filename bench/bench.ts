import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseOptions, runCommand, type Streams, UsageError, wholeNumber } from '../cli/arguments.ts';
import { measureAll } from './measure/measure.ts';
import { renderMarkdown } from './report/markdown.ts';
import { SCENARIOS, type Scenario } from './workload/scenarios.ts';

const HOPS = 'hops';
const NAMES = [...SCENARIOS.map(({ name }) => name), HOPS].join(', ');
const MAX_MESSAGES = 100_000;
const MAX_ROUNDS = 1_000;

const HELP = `Usage: npm run bench -- [options]

Scores generated messages with generated models and compares, in turns: the limit of the machine, the handler one
message at a time, first come, first served, and batchscore; and the first calls of fresh processes: batchscore, rows
alone through the handler and bare, and the fastest partition there is. The scenario hops measures what a request costs
with its calls of SQS, DynamoDB and S3, single and packed. All of them take some minutes, one takes one or two.

  --scenario NAME   measure only this one; repeat it or separate names by commas: ${NAMES}
  --messages N      send at most N messages in one event (default: as in the scenario)
  --rounds N        give every contestant N turns after its warm-up (default: as in the scenario)
  --results PATH    where the JSON is written (default bench/results/latest.json)
  --json            print the JSON instead of Markdown tables
  --help            show this
`;

const RESULTS = fileURLToPath(new URL('./results/latest.json', import.meta.url));

export async function bench(args: readonly string[], streams: Streams): Promise<number> {
  const options = parseOptions(args, {
    scenario: { type: 'string', multiple: true, default: [] },
    messages: { type: 'string', default: String(MAX_MESSAGES) },
    rounds: { type: 'string' },
    results: { type: 'string', default: RESULTS },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  });
  if (options.help) {
    streams.stdout.write(HELP);
    return 0;
  }
  const maxMessages = wholeNumber('--messages', options.messages, 1, MAX_MESSAGES);
  const rounds = options.rounds === undefined ? undefined : wholeNumber('--rounds', options.rounds, 1, MAX_ROUNDS);
  const chosen = chooseScenarios(options.scenario);
  const results = await measureAll({ ...chosen, maxMessages, rounds }, (progress) => {
    streams.stderr.write(`${progress}\n`);
  });
  const json = `${JSON.stringify(results)}\n`;
  await mkdir(dirname(options.results), { recursive: true });
  await writeFile(options.results, json);
  streams.stdout.write(options.json ? json : renderMarkdown(results));
  return 0;
}

/** @throws UsageError for an unknown name */
function chooseScenarios(lists: readonly string[]): {
  readonly scenarios: readonly Scenario[];
  readonly hops: boolean;
} {
  const names = lists.flatMap((list) => list.split(','));
  const unknown = names.find((name) => name !== HOPS && !SCENARIOS.some((scenario) => scenario.name === name));
  if (unknown !== undefined) throw new UsageError(`--scenario: expected one of ${NAMES}, got '${unknown}'`);
  if (names.length === 0) return { scenarios: SCENARIOS, hops: true };
  return { scenarios: SCENARIOS.filter(({ name }) => names.includes(name)), hops: names.includes(HOPS) };
}

if (import.meta.main) await runCommand(bench);
