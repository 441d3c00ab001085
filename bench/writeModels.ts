import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseCommand, runCommand, type Streams } from '../cli/arguments.ts';
import { drawMessages, encodeBody } from './workload/messages.ts';
import { createRepository } from './workload/modelRepository.ts';
import { SCENARIOS } from './workload/scenarios.ts';

const HELP = `Usage: npm run bench:models -- DIR

Writes the models of the benchmarks as a model repository, ${SCENARIOS.map(({ name }) => name).join(', ')}, each with
the first of its messages as samples where they differ in length. Then, for one:

  npm run profile -- --models DIR NAME

  --help  show this
`;

/** As many as are read of samples. */
const SAMPLES = 16;

export async function writeModels(args: readonly string[], streams: Streams): Promise<number> {
  const [directory = ''] = parseCommand(args, ['DIR'], {}).positionals;
  const repository = await createRepository(directory);
  for (const scenario of SCENARIOS) {
    const folder = join(directory, scenario.name);
    await repository.addModel(scenario);
    await repository.configure(scenario, undefined);
    if (scenario.lengths !== undefined) {
      const samples = Array.from(drawMessages(scenario, SAMPLES), (message) => `${encodeBody(message, 'json')}\n`);
      await writeFile(join(folder, 'samples.jsonl'), samples.join(''));
    }
    streams.stdout.write(`${folder}\n`);
  }
  return 0;
}

if (import.meta.main) await runCommand(writeModels, HELP);
