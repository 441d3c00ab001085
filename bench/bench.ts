import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseOptions, runCommand, UsageError, wholeNumber } from '../cli/arguments.ts';
import { measureAll } from './measure/measure.ts';
import { renderMarkdown } from './report/markdown.ts';
import { SCENARIOS, type Scenario } from './workload/scenarios.ts';

const NAMES = SCENARIOS.map(({ name }) => name).join(', ');
const MOST_MESSAGES = 100_000;
const MOST_ROUNDS = 1_000;

const HELP = `Usage: npm run bench -- [options]

Scores generated messages with generated models and compares, in turns: the limit of the machine, the handler one
message at a time, first come, first served, and batchscore. It takes a few minutes.

  --scenario NAME   measure only this one; repeat it or separate names by commas: ${NAMES}
  --messages N      send at most N messages in one event (default: as in the scenario)
  --rounds N        give every contestant N turns after its warm-up (default: as in the scenario)
  --results PATH    where the JSON is written (default bench/results/latest.json)
  --json            print the JSON instead of Markdown tables
  --help            show this
`;

const RESULTS = fileURLToPath(new URL('./results/latest.json', import.meta.url));

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args, {
    scenario: { type: 'string', multiple: true, default: [] },
    messages: { type: 'string', default: String(MOST_MESSAGES) },
    rounds: { type: 'string' },
    results: { type: 'string', default: RESULTS },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  });
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const mostMessages = wholeNumber('--messages', options.messages, 1, MOST_MESSAGES);
  const rounds = options.rounds === undefined ? undefined : wholeNumber('--rounds', options.rounds, 1, MOST_ROUNDS);
  const scenarios = chooseScenarios(options.scenario).map((one) => ({ ...one, rounds: rounds ?? one.rounds }));
  const results = await measureAll(scenarios, mostMessages, (progress) => {
    process.stderr.write(`${progress}\n`);
  });
  const json = `${JSON.stringify(results)}\n`;
  await mkdir(dirname(options.results), { recursive: true });
  await writeFile(options.results, json);
  process.stdout.write(options.json ? json : renderMarkdown(results));
  return 0;
}

/** @throws UsageError for an unknown name */
function chooseScenarios(lists: readonly string[]): readonly Scenario[] {
  const names = lists.flatMap((list) => list.split(','));
  const unknown = names.find((name) => !SCENARIOS.some((scenario) => scenario.name === name));
  if (unknown !== undefined) throw new UsageError(`--scenario: expected one of ${NAMES}, got '${unknown}'`);
  return names.length === 0 ? SCENARIOS : SCENARIOS.filter(({ name }) => names.includes(name));
}

await runCommand(main);
