import type { SQSRecord } from 'aws-lambda';
import { listSupportedBackends } from 'onnxruntime-node';
import { parseOptions, runCommand, type Streams, UsageError, wholeNumber } from '../cli/arguments.ts';
import { BATCH_BYTES } from '../lambda/core/limits.ts';
import { readNvidiaDevices } from '../lambda/onnx/nvidiaDevices.ts';
import { describeNvidia, deviceOf, isNvidia } from '../lambda/onnx/provider.ts';
import { CONFIG_KEYS, SETTINGS } from '../lambda/settings.ts';
import { createBareSession, stackMessages, sweep } from './contestants/bareSession.ts';
import { type Batchscore, openBatchscore } from './contestants/openBatchscore.ts';
import { figure, table } from './harness/report.ts';
import { describeMachine, type Machine, median, takeTurns, timed } from './harness/turns.ts';
import { chunks, drawMessages, toRecords } from './workload/messages.ts';
import { createRepository, type Repository } from './workload/modelRepository.ts';
import { GPU_SCENARIOS, type Scenario } from './workload/scenarios.ts';

const NAMES = GPU_SCENARIOS.map(({ name }) => name).join(', ');
/** Of a run, and of messages: on a processor, where nothing is gained by more, few. */
const MOST = { gpu: { rows: 1024, messages: 20_000 }, cpu: { rows: 64, messages: 2_000 } };
const NO_DEVICE = 2;

const HELP = `Usage: npm run bench:gpu -- [options]

Measures generated models on a device: session.run alone, batchscore's pipeline over the same
messages, one message at a time, and what shapes cost that were not seen before, with and
without warm-up. On a machine without a device it says so and ends with 2; --provider cpu
rehearses it there.

  --models NAMES   only these, with commas between them: ${NAMES}
  --provider NAME  execution provider of ONNX Runtime (default cuda)
  --device N         the number of the device (default 0)
  --messages N     at most N messages in a turn (default ${MOST.gpu.messages}, with cpu ${MOST.cpu.messages})
  --rounds N       turns of each contestant after its warm-up (default 5)
  --json           print JSON instead of a table
  --help           show this
`;

export async function benchGpu(args: readonly string[], streams: Streams): Promise<number> {
  const options = parseOptions(args, {
    models: { type: 'string', multiple: true, default: [] },
    provider: { type: 'string', default: 'cuda' },
    device: { type: 'string', default: '0' },
    messages: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    json: { type: 'boolean', default: false },
  });
  const { provider } = options;
  refuseUnknown(provider);
  const scenarios = chooseModels(options.models);
  const max = provider === 'cpu' ? MOST.cpu : MOST.gpu;
  const device = wholeNumber('--device', options.device, 0, 63);
  const settings: GpuSettings = {
    provider,
    device: deviceOf(provider) === undefined ? null : device,
    maxRows: max.rows,
    maxMessages:
      options.messages === undefined ? max.messages : wholeNumber('--messages', options.messages, 1, 100_000),
    rounds: wholeNumber('--rounds', options.rounds, 1, 100),
  };
  const nvidia = await readNvidiaDevices();
  if (isNvidia(provider) && (nvidia?.names[settings.device ?? 0] ?? '') === '') {
    streams.stderr.write(
      `batchscore: expected an NVIDIA device ${settings.device}, got none: ${describeNvidia(nvidia)}; measure on a machine ` +
        'that has one, or rehearse with --provider cpu\n',
    );
    return NO_DEVICE;
  }
  const models: GpuFigures[] = [];
  for (const scenario of scenarios) {
    const repository = await createRepository();
    try {
      models.push(await measureModel(scenario, repository, settings, (text) => void streams.stderr.write(`${text}\n`)));
    } finally {
      await repository.remove();
    }
  }
  const results = { machine: { ...describeMachine(), nvidia: nvidia ?? null }, ...settings, models };
  streams.stdout.write(options.json ? `${JSON.stringify(results)}\n` : renderGpu(results));
  return 0;
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

interface GpuSettings {
  /** An execution provider of ONNX Runtime. */
  readonly provider: string;
  /** The number of the device; null where the provider has none. */
  readonly device: number | null;
  /** Most rows in a run that are tried. */
  readonly maxRows: number;
  readonly maxMessages: number;
  /** Turns of every contestant, after a warm-up. */
  readonly rounds: number;
}

/** What one model comes to; rates in items a second, medians of rounds. */
interface GpuFigures {
  readonly model: string;
  readonly messages: number;
  /** The size at which `session.run` scores most items a second. */
  readonly bestRows: number;
  /** `session.run` alone, over the same messages as tensors of that size. */
  readonly rawPerSecond: number;
  /** Messages in, answers out: decoded, planned, stacked, run and encoded, two batches at a time as the worker does. */
  readonly pipelinePerSecond: number;
  /** The pipeline's rate over the raw one. */
  readonly ratio: number;
  readonly oneByOnePerSecond: number;
  /** A message that comes alone, with a window of 0. */
  readonly lone: { readonly p50Ms: number; readonly p99Ms: number };
  readonly firstSeen: FirstSeen;
}

/** Bodies of all messages together: they are held in memory. */
const MAX_BODY_BYTES = 256 * 1024 * 1024;
/** What the messages of a turn should take. */
const TURN_SECONDS = 1;
/** Messages that come alone, or as many as come in so long. */
const LONE_MESSAGES = 100;
const LONE_SECONDS = 5;

async function measureModel(
  scenario: Scenario,
  repository: Repository,
  settings: GpuSettings,
  say: (progress: string) => void,
): Promise<GpuFigures> {
  const { name } = scenario;
  const { provider, device, maxRows, rounds } = settings;
  const providers = [device === null ? provider : { name: provider, deviceId: device }];
  say(`${name}: looking for the best size`);
  const session = await createBareSession(await repository.addModel(scenario), providers);
  const { bestRows, rowsPerSecond } = await sweep(session, scenario, maxRows);
  const messages = [...drawMessages(scenario, countOf(scenario, bestRows, rowsPerSecond, settings))];
  const records = toRecords(messages, 'binary');

  const allowedSizes = Array.from({ length: Math.log2(bestRows) + 1 }, (_, power) => 2 ** power);
  const rowElements = (messages[0]?.inputs ?? []).reduce((sum, { data }) => sum + data.length, 0);
  const elements = Math.max(SETTINGS.maxBatchElements.default, bestRows * rowElements);
  const variables = { [CONFIG_KEYS.maxBatchElements]: String(elements) };
  // On a GPU those are the allowed sizes by default.
  const own = device === null ? { providers, allowedSizes } : { providers };
  const configure = (more: Readonly<Record<string, unknown>>): Promise<void> =>
    repository.configure(scenario, bestRows, { ...own, ...more });
  const open = (more: Readonly<Record<string, string>> = {}) =>
    openBatchscore(repository.directory, name, { ...variables, ...more });

  say(`${name}: what shapes cost that were not seen before`);
  const firstSeen = await measureFirstSeen(records, allowedSizes, configure, open);
  say(`${name}: ${messages.length} messages, at most ${bestRows} rows in a run`);
  await configure({});
  const batchscore = await open();
  const feeds = chunks(messages, bestRows).map(stackMessages);
  const contestants = [
    async () => {
      for (const one of feeds) await session.run(one);
    },
    () => scoreInPipeline(batchscore, records, bestRows),
  ];
  const [rawMs = 0, pipelineMs = 0] = (await takeTurns(contestants.map(timed), rounds, 0)).map(median);
  const lone = await measureLone(batchscore, records);
  await batchscore.close();
  await session.release();
  const rate = (ms: number): number => (1000 * messages.length) / ms;
  return {
    model: name,
    messages: messages.length,
    bestRows,
    rawPerSecond: rate(rawMs),
    pipelinePerSecond: rate(pipelineMs),
    ratio: rawMs / pipelineMs,
    oneByOnePerSecond: (1000 * lone.length) / lone.reduce((sum, ms) => sum + ms, 0),
    lone: { p50Ms: median(lone), p99Ms: lone.toSorted((a, b) => a - b)[Math.ceil(0.99 * lone.length) - 1] ?? 0 },
    firstSeen,
  };
}

/** @returns milliseconds from message to answer, of each alone */
async function measureLone(batchscore: Batchscore, records: readonly SQSRecord[]): Promise<number[]> {
  const taken: number[] = [];
  const until = performance.now() + 1000 * LONE_SECONDS;
  for (const record of records.slice(0, LONE_MESSAGES)) {
    taken.push(await timed(() => batchscore.invoke([record]))());
    if (performance.now() > until) break;
  }
  return taken;
}

/** Whole runs of the best size, a turn long, four of them at least. */
function countOf(scenario: Scenario, bestRows: number, rowsPerSecond: number, { maxMessages }: GpuSettings): number {
  const [sample] = toRecords(drawMessages(scenario, 1), 'binary');
  const held = MAX_BODY_BYTES / (sample?.body.length ?? 1);
  const wanted = Math.max(4 * bestRows, TURN_SECONDS * rowsPerSecond);
  const runs = Math.floor(Math.min(wanted, held, maxMessages) / bestRows);
  return bestRows * Math.max(1, runs);
}

/** What shapes cost that a model was not run at before; batches of so many rows, one after the other. */
interface FirstSeen {
  readonly rows: readonly number[];
  readonly withoutWarmUp: FirstInvocations;
  readonly withWarmUp: FirstInvocations;
}

interface FirstInvocations {
  /** Until the model takes requests. */
  readonly loadMs: number;
  /** The first batch of so many rows, and the second. */
  readonly firstMs: readonly number[];
  readonly againMs: readonly number[];
}

/** Rows that are run once more to be compared would count as well. */
const UNCHECKED = { [CONFIG_KEYS.checkPercent]: '0' };

/** @param allowedSizes of the model, ascending */
async function measureFirstSeen(
  records: SQSRecord[],
  allowedSizes: readonly number[],
  configure: (more: Readonly<Record<string, unknown>>) => Promise<void>,
  open: (variables: Readonly<Record<string, string>>) => Promise<Batchscore>,
): Promise<FirstSeen> {
  const rows = allowedSizes.filter((count) => count <= records.length);
  const measure = async (): Promise<FirstInvocations> => {
    const startedAt = performance.now();
    const batchscore = await open(UNCHECKED);
    const loadMs = performance.now() - startedAt;
    const firstMs: number[] = [];
    const againMs: number[] = [];
    for (const count of rows) {
      for (const taken of [firstMs, againMs]) {
        taken.push(await timed(() => batchscore.invoke(records.slice(0, count)))());
      }
    }
    await batchscore.close();
    return { loadMs, firstMs, againMs };
  };
  await configure({ warmup: false, batching: 'trust' });
  const withoutWarmUp = await measure();
  await configure({});
  return { rows, withoutWarmUp, withWarmUp: await measure() };
}

/** What the worker has in one batch besides `BATCH_BYTES`, and how many batches it scores at the same time. */
const BATCH_RECORDS = 512;
const DEPTH = 2;

/**
 * Scores records as the worker does: in batches, two at a time, so that one is decoded while the other runs.
 *
 * @param rows of a run: batches are whole runs
 */
async function scoreInPipeline(batchscore: Batchscore, records: readonly SQSRecord[], rows: number): Promise<void> {
  const maxRecords = Math.min(BATCH_RECORDS, Math.floor(BATCH_BYTES / (records[0]?.body.length ?? 1)));
  const size = rows * Math.max(1, Math.floor(maxRecords / rows));
  let next = 0;
  const keepBusy = async (): Promise<void> => {
    while (next < records.length) {
      const batch = records.slice(next, next + size);
      next += batch.length;
      await batchscore.invoke(batch);
    }
  };
  await Promise.all(Array.from({ length: DEPTH }, keepBusy));
}

/** Everything that one run of the GPU's bench measured. */
interface GpuResults extends GpuSettings {
  readonly machine: Machine & {
    readonly nvidia: { readonly driver: string; readonly names: readonly string[] } | null;
  };
  readonly models: readonly GpuFigures[];
}

/** Markdown: what is measured, rates and times, and what the first run of each shape costs. */
function renderGpu({ machine, provider, device, models }: GpuResults): string {
  const where = device === null ? machine.cpu : `${machine.nvidia?.names[device]}, driver ${machine.nvidia?.driver}`;
  const perSecond = (rate: number): string => figure(rate, '/s');
  const ms = (value = Number.NaN): string => figure(value, ' ms');
  const rates = table(models, {
    model: ({ model }) => model,
    'rows a run': ({ bestRows }) => String(bestRows),
    'session.run': ({ rawPerSecond }) => perSecond(rawPerSecond),
    pipeline: ({ pipelinePerSecond }) => perSecond(pipelinePerSecond),
    'of it': ({ ratio }) => `${(100 * ratio).toFixed(0)} %`,
    'one by one': ({ oneByOnePerSecond }) => perSecond(oneByOnePerSecond),
    'alone p50': ({ lone }) => ms(lone.p50Ms),
    'alone p99': ({ lone }) => ms(lone.p99Ms),
  });
  const firstSeen = models.flatMap(({ model, firstSeen: { rows, withoutWarmUp, withWarmUp } }) =>
    rows.map((count, index) => ({ model, count, index, cold: withoutWarmUp, warm: withWarmUp })),
  );
  const shapes = table(firstSeen, {
    model: ({ model }) => model,
    'load, cold': ({ cold }) => ms(cold.loadMs),
    'load, warm': ({ warm }) => ms(warm.loadMs),
    rows: ({ count }) => String(count),
    'first, cold': ({ cold, index }) => ms(cold.firstMs[index]),
    'again, cold': ({ cold, index }) => ms(cold.againMs[index]),
    'first, warm': ({ warm, index }) => ms(warm.firstMs[index]),
  });
  return (
    `${provider} on ${where}, ONNX Runtime ${machine.onnxruntime}, Node ${machine.node}\n\nItems a second\n\n${rates}\n\n` +
    `Batches of a shape that was not seen before, without and with warm-up\n\n${shapes}\n`
  );
}

if (import.meta.main) await runCommand(benchGpu, HELP);
