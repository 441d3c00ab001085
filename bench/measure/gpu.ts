import type { SQSRecord } from 'aws-lambda';
import type { InferenceSession } from 'onnxruntime-node';
import { CONFIG_KEYS } from '../../lambda/configKeys.ts';
import { RANGES } from '../../lambda/core/limits.ts';
import { createBareSession, stackMessages } from '../contestants/bareSession.ts';
import { type Batchscore, openBatchscore } from '../contestants/batchscore.ts';
import { sweep } from '../contestants/sweep.ts';
import { drawMessages, type Message, toRecords } from '../workload/messages.ts';
import { createTemporaryRepository, type TemporaryRepository } from '../workload/modelRepository.ts';
import type { Scenario } from '../workload/scenarios.ts';
import { takeTurns, timed } from './contest.ts';
import { type FirstSeen, measureFirstSeen } from './firstSeen.ts';
import { scoreInPipeline } from './pipeline.ts';
import { quantile } from './quantile.ts';

export interface GpuSettings {
  /** An execution provider of ONNX Runtime. */
  readonly provider: string;
  /** The number of the card; null where the provider has none. */
  readonly card: number | null;
  /** Most rows in a run that are tried. */
  readonly mostRows: number;
  readonly mostMessages: number;
  /** Turns of every contestant, after a warm-up. */
  readonly rounds: number;
}

/** What one model comes to; rates in items a second, medians of rounds. */
export interface GpuFigures {
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
const MOST_BODY_BYTES = 256 * 1024 * 1024;
/** What the messages of a turn should take. */
const TURN_SECONDS = 1;
/** Messages that come alone, or as many as come in so long. */
const LONE_MESSAGES = 100;
const LONE_SECONDS = 5;

/** Measures each model in a repository of its own, which is removed in the end. */
export async function measureGpu(
  scenarios: readonly Scenario[],
  settings: GpuSettings,
  say: (progress: string) => void,
): Promise<GpuFigures[]> {
  const figures: GpuFigures[] = [];
  for (const scenario of scenarios) {
    const repository = await createTemporaryRepository();
    try {
      figures.push(await measureModel(scenario, repository, settings, say));
    } finally {
      await repository.remove();
    }
  }
  return figures;
}

async function measureModel(
  scenario: Scenario,
  repository: TemporaryRepository,
  settings: GpuSettings,
  say: (progress: string) => void,
): Promise<GpuFigures> {
  const { name } = scenario;
  const { provider, card, mostRows, rounds } = settings;
  const providers = [card === null ? provider : { name: provider, deviceId: card }];
  say(`${name}: looking for the best size`);
  const session = await createBareSession(await repository.addModel(scenario), providers);
  const { bestRows, rowsPerSecond } = await sweep(session, scenario, mostRows);
  const messages = [...drawMessages(scenario, countOf(scenario, bestRows, rowsPerSecond, settings))];
  const records = toRecords(messages, 'binary');

  const ladder = rungsUpTo(bestRows);
  const elements = Math.max(RANGES.maxBatchElements.default, bestRows * elementsOf(messages[0] as Message));
  const variables = { [CONFIG_KEYS.maxBatchElements]: String(elements) };
  // On a card that is the ladder by default.
  const own = card === null ? { providers, ladder } : { providers };
  const configure = (more: Readonly<Record<string, unknown>>): Promise<void> =>
    repository.configure(scenario, bestRows, { ...own, ...more });
  const open = (more: Readonly<Record<string, string>> = {}) =>
    openBatchscore(repository.directory, name, { ...variables, ...more });

  say(`${name}: what shapes cost that were not seen before`);
  const firstSeen = await measureFirstSeen(records, ladder, configure, open);
  say(`${name}: ${messages.length} messages, at most ${bestRows} rows in a run`);
  await configure({});
  const batchscore = await open();
  const feeds = chunks(messages, bestRows).map(stackMessages);
  const [rawMs = 0, pipelineMs = 0] = await takeTurns(
    [timed(() => runAll(session, feeds)), timed(() => scoreInPipeline(batchscore, records, bestRows))],
    rounds,
  );
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
    lone: { p50Ms: quantile(lone, 0.5), p99Ms: quantile(lone, 0.99) },
    firstSeen,
  };
}

/** @returns milliseconds from message to answer, of each alone */
async function measureLone(batchscore: Batchscore, records: readonly SQSRecord[]): Promise<number[]> {
  const taken: number[] = [];
  const until = performance.now() + 1000 * LONE_SECONDS;
  for (const record of records.slice(0, LONE_MESSAGES)) {
    const startedAt = performance.now();
    await batchscore.invoke([record]);
    taken.push(performance.now() - startedAt);
    if (performance.now() > until) break;
  }
  return taken;
}

/** Whole runs of the best size, a turn long, four of them at least. */
function countOf(scenario: Scenario, bestRows: number, rowsPerSecond: number, { mostMessages }: GpuSettings): number {
  const [sample] = toRecords(drawMessages(scenario, 1), 'binary');
  const held = MOST_BODY_BYTES / (sample?.body.length ?? 1);
  const wanted = Math.max(4 * bestRows, TURN_SECONDS * rowsPerSecond);
  const runs = Math.floor(Math.min(wanted, held, mostMessages) / bestRows);
  return bestRows * Math.max(1, runs);
}

async function runAll(session: InferenceSession, feeds: readonly ReturnType<typeof stackMessages>[]): Promise<void> {
  for (const one of feeds) await session.run(one);
}

function chunks<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, chunk) =>
    items.slice(chunk * size, (chunk + 1) * size),
  );
}

function rungsUpTo(most: number): number[] {
  return Array.from({ length: Math.log2(most) + 1 }, (_, power) => 2 ** power);
}

function elementsOf({ inputs }: Message): number {
  return inputs.reduce((sum, { data }) => sum + data.length, 0);
}
