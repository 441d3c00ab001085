import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseCommand, runCommand } from '../cli/arguments.ts';
import { drawMessages, encodeBody } from './workload/messages.ts';
import { SCENARIOS, type Scenario } from './workload/scenarios.ts';

const HELP = `Usage: npm run bench:models -- DIR

Writes the models of the benchmarks as a model repository, ${SCENARIOS.map(({ name }) => name).join(', ')}, each with
the first of its messages as samples where they differ in length. Then, for one:

  npm run profile -- --models DIR NAME

  --help  show this
`;

/** As many as are read of samples. */
const SAMPLES = 16;

async function main(args: readonly string[]): Promise<number> {
  if (args.includes('--help')) {
    process.stdout.write(HELP);
    return 0;
  }
  const [directory = ''] = parseCommand(args, ['DIR'], {}).positionals;
  for (const scenario of SCENARIOS) {
    await writeModel(join(directory, scenario.name), scenario);
    process.stdout.write(`${join(directory, scenario.name)}\n`);
  }
  return 0;
}

async function writeModel(folder: string, scenario: Scenario): Promise<void> {
  const { encodeModel, modelConfig = {}, lengths } = scenario;
  await mkdir(join(folder, '1'), { recursive: true });
  await writeFile(join(folder, '1', 'model.onnx'), encodeModel());
  await writeFile(join(folder, 'config.json'), `${JSON.stringify(modelConfig)}\n`);
  if (lengths === undefined) return;
  const samples = Array.from(drawMessages(scenario, SAMPLES), (message) => `${encodeBody(message, 'json')}\n`);
  await writeFile(join(folder, 'samples.jsonl'), samples.join(''));
}

await runCommand(main);
