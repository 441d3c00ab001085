import { resolve } from 'node:path';
import { messageOf } from '../../core/failure.ts';
import {
  type Cost,
  listNames,
  type Model,
  SettingsMissingError,
  type TensorSpec,
  type Transform,
} from '../../core/model.ts';
import { loadTransform } from '../config/loadTransform.ts';
import type { ModelConfig } from '../config/modelConfig.ts';
import { readGraph } from '../config/modelGraph.ts';
import { readCost } from '../config/profile.ts';
import { decodeSamples, readSampleLines, type SampleLines } from '../config/samples.ts';
import { CURES } from '../session/bakedRows.ts';
import { readContract } from '../session/contract.ts';
import { openWithProviders } from '../session/openWithProviders.ts';
import { type Placement, placementOf } from '../session/placement.ts';
import { hasCards, nameOf, type Provider, runOnGpu } from '../session/provider.ts';
import type { Session } from '../session/session.ts';
import type { ModelGraph } from '../startup/modelGraph.ts';
import { prepare } from '../startup/prepare.ts';
import type { ModelLocation } from './findModels.ts';
import { missingSettings } from './missingSettings.ts';
import { toModel } from './toModel.ts';

/** The deployment's settings for every model; a model's config.json comes first. */
export interface ModelDefaults {
  /** Most rows in one run. */
  readonly maxBatchRows: number;
  /** Most elements that the inputs of one run hold together, padding included. */
  readonly maxBatchElements: number;
  /** ONNX Runtime execution providers, first choice first, at least one. */
  readonly providers: readonly string[];
  /** Go on with the next provider, with a warning, when one cannot be loaded. */
  readonly allowProviderFallback: boolean;
  /** Whether a provider can open a model on several cards. @default for those that ONNX Runtime tells of cards */
  readonly takesCards?: ((provider: Provider) => boolean) | undefined;
  /** Leave a profile that lies beside a model alone. @default false */
  readonly ignoreProfile?: boolean | undefined;
  /** Try more probes for longer than a start may take. @default false */
  readonly isThorough?: boolean | undefined;
  /** Whether no other model is in this process. @default true */
  readonly onlyModel?: boolean | undefined;
  /** The clock by which checks at start end when they have taken as long as they may, in milliseconds. @default performance.now */
  readonly now?: (() => number) | undefined;
}

/** What a model tells the repository that it is in. */
export interface ModelReports {
  /** Told what works but not as well as it should. */
  readonly warn: (message: string) => void;
  /** Told what was found of the model, for the start log. */
  readonly inform: (message: string) => void;
  /** Told where the model's runs go, once it is loaded. */
  readonly placed: (placement: Placement) => void;
  /** Holds something for every run that was left behind, until it ends. */
  readonly stuckRuns: Set<object>;
  /** Told what the model's start took, once it is loaded. @default nobody is told */
  readonly loaded?: ((start: ModelStart) => void) | undefined;
}

/** What the start of a model took, and what it came to. */
export interface ModelStart {
  /** Until its thread had ONNX Runtime. */
  readonly libraryMs: number;
  /** From then on, until it was open. */
  readonly loadMs: number;
  /** Its warm-up and checks. */
  readonly warmUpMs: number;
  /** Rows that the checks ran alone and in company. */
  readonly probes: number;
  /** Threads that a run is spread over; undefined: as many as ONNX Runtime takes. */
  readonly threads: number | undefined;
}

/** A run at start that takes longer than this is taken for one that never ends. */
const RUN_LIMIT_MS = 60_000;

export interface LoadedModel {
  readonly model: Model;
  close(): Promise<void>;
}

/**
 * Opens a model in a thread of its own, reads its contract and warms up every rung.
 *
 * @throws Error naming the file, and what to do
 */
export async function loadModel(
  location: ModelLocation,
  config: ModelConfig,
  defaults: ModelDefaults,
  reports: ModelReports,
): Promise<LoadedModel> {
  const { warn, inform, stuckRuns, loaded = () => {} } = reports;
  const { now = () => performance.now() } = defaults;
  const startedAt = now();
  const transform = await transformOf(location, config, warn);
  // Read while the thread starts.
  const beside = Promise.all([readGraph(location.path), readSampleLines(location.folder)]);
  beside.catch(() => {});
  const { allowProviderFallback, takesCards = hasCards } = defaults;
  const { session, providers, devices } = await openWithProviders(
    {
      path: location.path,
      providers: config.providers ?? defaults.providers,
      devices: config.devices,
      sessionOptions: config.sessionOptions ?? {},
      onlyModel: defaults.onlyModel,
    },
    { allowProviderFallback, takesCards, warn },
    stuckRuns,
  );
  const openedAt = now();
  try {
    const contract = readContract(session.metadata, config);
    const cost = defaults.ignoreProfile ? undefined : costOf(location, config, providers, warn);
    const model = { ...toModel(location, contract, session, config, defaults.maxBatchRows), cost, transform };
    if (contract.bakedRows !== undefined) warn(bakedAxisWarning(location, contract.bakedRows, contract.bakedBy));
    const [graph, lines] = await beside;
    const prepared = await prepare(model, {
      sizes: config.warmup ?? true,
      batching: config.batching,
      graph,
      samples: await decodeSamples(lines, model),
      loadMs: now() - startedAt,
      now,
      onGpu: runOnGpu(providers),
      maxElements: defaults.maxBatchElements,
      runLimitMs: RUN_LIMIT_MS,
      isThorough: defaults.isThorough ?? false,
    });
    if (prepared.bakedRows !== undefined) warn(bakedAxisWarning(location, prepared.bakedRows));
    for (const warning of prepared.warnings) warn(`${location.path}: ${warning}`);
    const placement = await placementOf(providers, devices);
    inform(`${location.path}: ${prepared.found}; it runs on ${placement.description}`);
    reports.placed(placement);
    const { threads, waiting } = await session.warmedUp();
    if (waiting !== undefined) inform(`${location.path}: ${waiting}`);
    const { libraryMs } = session.metadata;
    const loadMs = openedAt - startedAt - libraryMs;
    loaded({ libraryMs, loadMs, warmUpMs: now() - openedAt, probes: prepared.probes, threads });
    return { model: { ...prepared.model, measured: prepared.measured }, close: () => session.close() };
  } catch (cause) {
    const missing = cause instanceof SettingsMissingError ? await explain(session, config, beside) : undefined;
    await session.close();
    throw new Error(`${location.path}: ${missing ?? messageOf(cause)}`, { cause });
  }
}

async function explain(
  session: Session,
  config: ModelConfig,
  beside: Promise<readonly [ModelGraph, SampleLines]>,
): Promise<string | undefined> {
  const [graph] = await beside;
  return missingSettings(session, config, !graph.operators.has('Loop'));
}

function costOf(
  { path }: ModelLocation,
  { ragged, sessionOptions }: ModelConfig,
  [first = 'cpu']: readonly Provider[],
  warn: (message: string) => void,
): Cost | undefined {
  const isRagged = ragged !== undefined;
  return readCost(path, { provider: nameOf(first), threads: threadsOf(sessionOptions), isRagged, warn });
}

/** Those that config.json gives; ONNX Runtime takes 0 for as many as it likes. */
function threadsOf(sessionOptions: ModelConfig['sessionOptions']): number | undefined {
  const given = sessionOptions?.intraOpNumThreads;
  return typeof given === 'number' && given > 0 ? given : undefined;
}

async function transformOf(
  { folder }: ModelLocation,
  { transform }: ModelConfig,
  warn: (message: string) => void,
): Promise<Transform | undefined> {
  return transform === undefined ? undefined : loadTransform(resolve(folder, transform), warn);
}

function bakedAxisWarning({ path }: ModelLocation, rows: number, by: readonly TensorSpec[] = []): string {
  const cure = by.length === 0 ? '' : `; only ${listNames(by)} says so: ${CURES}`;
  return (
    `${path}: the batch axis is baked to ${rows}: every run takes exactly ${rows} rows, padded where they are fewer; ` +
    'export the model with a dynamic batch axis (torch.onnx.export: dynamic_axes or dynamic_shapes with axis 0)' +
    cure
  );
}
