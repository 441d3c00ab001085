import { listSupportedBackends } from 'onnxruntime-node';
import { parseOptions, runCommand, UsageError, wholeNumber } from '../cli/arguments.ts';
import { readNvidiaCards } from '../lambda/aws/nvidiaCards.ts';
import { cardOf, describeNvidia, isNvidia } from '../lambda/onnx/provider.ts';
import { type GpuSettings, measureGpu } from './measure/gpu.ts';
import { describeMachine } from './measure/machine.ts';
import { renderGpu } from './report/gpu.ts';
import { GPU_SCENARIOS } from './workload/gpuScenarios.ts';
import type { Scenario } from './workload/scenarios.ts';

const NAMES = GPU_SCENARIOS.map(({ name }) => name).join(', ');
/** Of a run, and of messages: on a processor, where nothing is gained by more, few. */
const MOST = { gpu: { rows: 1024, messages: 20_000 }, cpu: { rows: 64, messages: 2_000 } };
const NO_CARD = 2;

const HELP = `Usage: npm run bench:gpu -- [options]

Measures generated models on a card: session.run alone, batchscore's pipeline over the same
messages, one message at a time, and what shapes cost that were not seen before, with and
without warm-up. On a machine without a card it says so and ends with 2; --provider cpu
rehearses it there.

  --models NAMES   only these, with commas between them: ${NAMES}
  --provider NAME  execution provider of ONNX Runtime (default cuda)
  --card N         the number of the card (default 0)
  --messages N     at most N messages in a turn (default ${MOST.gpu.messages}, with cpu ${MOST.cpu.messages})
  --rounds N       turns of each contestant after its warm-up (default 5)
  --json           print JSON instead of a table
  --help           show this
`;

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args, {
    models: { type: 'string', multiple: true, default: [] },
    provider: { type: 'string', default: 'cuda' },
    card: { type: 'string', default: '0' },
    messages: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  });
  if (options.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const { provider } = options;
  refuseUnknown(provider);
  const scenarios = chooseModels(options.models);
  const settings = settingsFor(provider, options);
  const nvidia = await readNvidiaCards();
  if (isNvidia(provider) && (nvidia?.names[settings.card ?? 0] ?? '') === '') {
    process.stderr.write(
      `batchscore: expected an NVIDIA card ${settings.card}, got none: ${describeNvidia(nvidia)}; measure on a machine ` +
        'that has one, or rehearse with --provider cpu\n',
    );
    return NO_CARD;
  }
  const models = await measureGpu(scenarios, settings, (progress) => void process.stderr.write(`${progress}\n`));
  const results = { machine: { ...describeMachine(), nvidia: nvidia ?? null }, ...settings, models };
  process.stdout.write(options.json ? `${JSON.stringify(results)}\n` : renderGpu(results));
  return 0;
}

function settingsFor(
  provider: string,
  {
    card,
    messages,
    rounds,
  }: { readonly card: string; readonly messages?: string | undefined; readonly rounds: string },
): GpuSettings {
  const most = provider === 'cpu' ? MOST.cpu : MOST.gpu;
  const number = wholeNumber('--card', card, 0, 63);
  return {
    provider,
    card: cardOf(provider) === undefined ? null : number,
    mostRows: most.rows,
    mostMessages: messages === undefined ? most.messages : wholeNumber('--messages', messages, 1, 100_000),
    rounds: wholeNumber('--rounds', rounds, 1, 100),
  };
}

/** @throws UsageError for one that is neither NVIDIA's nor in this machine's ONNX Runtime */
function refuseUnknown(provider: string): void {
  const known = listSupportedBackends().map(({ name }) => name);
  if (isNvidia(provider) || known.includes(provider)) return;
  throw new UsageError(`--provider: expected one of ${known.join(', ')}, got '${provider}'`);
}

/** @throws UsageError for an unknown name */
function chooseModels(lists: readonly string[]): readonly Scenario[] {
  const names = lists.flatMap((list) => list.split(','));
  const unknown = names.find((name) => !GPU_SCENARIOS.some((scenario) => scenario.name === name));
  if (unknown !== undefined) throw new UsageError(`--models: expected some of ${NAMES}, got '${unknown}'`);
  return names.length === 0 ? GPU_SCENARIOS : GPU_SCENARIOS.filter(({ name }) => names.includes(name));
}

await runCommand(main);
