import type { Failure } from '../core/failure.ts';
import type { BatchMismatch, Observer } from '../core/observer.ts';
import type { PayloadReader } from '../core/record.ts';
import type { ScoreBodies, ScoringLimits } from '../core/score.ts';
import type {
  Assignment,
  BrokenModel,
  DescribedModel,
  LoadSettings,
  OpenedModels,
  Repository,
  Told,
} from './frames.ts';
import { createLane, createTurns, type Lane, type StartOf } from './lanes.ts';
import { type ScorerChild, startChild } from './scorerChild.ts';
import { type CallContext, ScoringCall } from './scoringCall.ts';

/** The models of a host, in a process of their own: whatever a request does to it, the host goes on. */
export interface Scorer extends OpenedModels {
  /**
   * Scores bodies as the core does. If the process is lost, bodies without a reply are scored by another one, and the
   * requests that were being run when it was lost run one at a time, with nothing beside them. One that ends a process
   * so is answered with a permanent error.
   */
  readonly score: ScoreBodies;
  /** Describes a model, which is loaded if it is not yet; the default one without a name. */
  find(name: string | undefined, version: string | undefined): Promise<DescribedModel | Failure>;
  close(): Promise<void>;
}

export interface ScorerOptions {
  readonly repository: Repository;
  readonly load: LoadSettings;
  readonly limits: ScoringLimits;
  readonly checkPercent: number;
  /** Reads bodies that were too large for SQS. @default a pointer to one is refused */
  readonly payloads?: PayloadReader | undefined;
  /** True if stages of the work are reported to observers. @default false */
  readonly hasStages?: boolean;
  /** Told what works but not as well as it should. */
  readonly warn: (message: string) => void;
  /** Told what was found of each model when it was loaded. @default nobody is told */
  readonly inform?: ((message: string) => void) | undefined;
  /** Told where the runs of a model go, once it is loaded. @default nobody is told */
  readonly assigned?: ((assignment: Assignment) => void) | undefined;
  /** Told how many rows of a model were compared when it was loaded. @default nobody is told */
  readonly loaded?: ((probes: number) => void) | undefined;
  /** Told of each process that was lost. @default nobody is told */
  readonly onLost?: ((error: Error) => void) | undefined;
}

/**
 * Shares of the time of a call after which a run is taken to hang, which convicts nobody: its requests then run alone,
 * or with all the time that is left. The first run of a shape takes long on a GPU.
 */
const LIMITS = { cpu: { together: 1 / 30, first: 1 / 60 }, gpu: { together: 1 / 4, first: 1 / 8 } };
/**
 * Processes in a row that a model may end, with no run that ends well in between, before it is left alone for a while.
 */
const MAX_LOST_IN_A_ROW = 16;
const BROKEN_MS = 60_000;
/** Idle time after which the process for requests that run alone ends. */
const IDLE_MS = 60_000;
const MAX_SLOW_KEYS = 10_000;

let early: ReturnType<typeof startChild> | undefined;

/** Starts the process of the scorer that is opened next: it loads its code while the host loads its own. */
export function startScorerEarly(): void {
  try {
    early ??= startChild(freeBytes(0));
  } catch {
    // Whoever opens the scorer tries again, and is told.
  }
}

/**
 * Starts a scorer.
 *
 * @throws Error naming the folder or file that is missing or broken, or the model that ended the process
 */
export async function openScorer(options: ScorerOptions): Promise<Scorer> {
  const { limits, warn, payloads, load } = options;
  const mismatches: Mismatch[] = [];
  const health = createHealth((broken) => {
    for (const lane of [shared, own]) lane.current()?.leaveAlone(broken);
  });
  const start = (lane: Lane | undefined, heldByOthers: number, which: StartOf): ScorerChild => {
    return startOpening(options, heldByOthers, {
      which,
      mismatches,
      broken: health.broken(),
      // Other models go on in the meantime.
      onHang: lane && (async () => (opened.models.length > 1 && fitsTwice() ? lane.replace() : undefined)),
    });
  };
  const shared: Lane = createLane((which) => start(shared, own.heldBytes(), which), warn);
  const own: Lane = createLane(() => start(undefined, shared.heldBytes(), 'next'), warn, IDLE_MS);
  const fitsTwice = (): boolean => freeBytes(shared.heldBytes()) > shared.heldBytes();
  const opened = await shared.first();
  const context: CallContext = {
    shared,
    own,
    sharedTurns: createTurns(),
    aloneTurns: createTurns(),
    fitsTwice,
    slow: createKeySet(MAX_SLOW_KEYS),
    limits: load.providers[0] === 'cpu' ? LIMITS.cpu : LIMITS.gpu,
    deadlineMarginMs: limits.deadlineMarginMs,
    payloads,
    note: createNotes(health, options.onLost),
    observe(told, observer) {
      if (told.is === 'microBatch') health.ranWell(told.report.model);
      if (told.is === 'batchMismatch') mismatches.push(told.mismatch);
      report(told, observer);
    },
  };
  return {
    ...opened,
    score: (...call) => new ScoringCall(context, ...call).run(),
    async find(name, version) {
      for (;;) {
        const child = await shared.open(NEVER);
        if (child === undefined) throw new Error('scorer is closed');
        // A process that is lost with the question has a successor, which leaves the model alone if that was why.
        const model = await child.describe(name, version).catch(() => undefined);
        if (model !== undefined) return model;
        await child.ended;
      }
    },
    async close() {
      await Promise.all([shared.close(), own.close()]);
    },
  };
}

const NEVER = new AbortController().signal;

type Mismatch = Pick<BatchMismatch, 'model' | 'version'>;

interface Starting {
  /**
   * The first process of a host says what was found of each model. The next one loads models when requests name them.
   */
  readonly which: StartOf;
  readonly mismatches: readonly Mismatch[];
  readonly broken: readonly BrokenModel[];
  readonly onHang: (() => Promise<void>) | undefined;
}

/** Starts a process, or takes the one that was started early, and has it open models. */
function startOpening(
  {
    repository,
    load,
    limits,
    checkPercent,
    payloads,
    hasStages = false,
    warn,
    inform,
    assigned,
    loaded,
  }: ScorerOptions,
  heldByOthers: number,
  { which, mismatches, broken, onHang }: Starting,
): ScorerChild {
  const open = early ?? startChild(freeBytes(heldByOthers));
  early = undefined;
  return open({
    opening: {
      repository:
        'path' in repository ? repository : { ...repository, preload: which !== 'next' && repository.preload },
      load,
      limits,
      checkPercent,
      hasPayloads: payloads !== undefined,
      mismatches,
      broken,
      hasStages,
    },
    warn,
    inform: which === 'first' ? inform : undefined,
    assigned,
    loaded,
    onHang,
  });
}

/** Notes each process that was lost once, although each of its calls tells. */
function createNotes(health: ReturnType<typeof createHealth>, onLost: ScorerOptions['onLost']): CallContext['note'] {
  const noted = new WeakSet<ScorerChild>();
  return (child, { how, hungMs, model, isOpening }) => {
    if (noted.has(child)) return;
    noted.add(child);
    const why = hungMs === undefined ? how : `was ended: a run had not ended after ${Math.round(hungMs)} ms`;
    onLost?.(new Error(`the scorer ${why}`));
    if (model !== undefined) health.lost(model, isOpening);
  };
}

function report(told: Told, observer: Observer): void {
  switch (told.is) {
    case 'microBatch':
      observer.microBatch(told.report, () => told.bodies);
      break;
    case 'decoded':
      observer.decoded(told.ms);
      break;
    case 'checked':
      observer.checked(told.ms);
      break;
    case 'transformed':
      observer.transformed?.(told.report);
      break;
    case 'batchMismatch':
      observer.batchMismatch(told.mismatch);
      break;
    case 'stage':
      observer.stage?.(...told.stage);
      break;
    case 'problem':
      observer.problem(told.error);
      break;
  }
}

/** Which models end processes, and no run of which ends well in between. */
function createHealth(onBroken: (broken: BrokenModel) => void) {
  const lostInARow = new Map<string, number>();
  const brokenUntil = new Map<string, number>();
  return {
    /** @param isOpening whether the model was being opened: nothing is to be had of it */
    lost(model: string, isOpening: boolean): void {
      const lost = (lostInARow.get(model) ?? 0) + 1;
      lostInARow.set(model, lost);
      if (lost < MAX_LOST_IN_A_ROW && !isOpening) return;
      lostInARow.delete(model);
      brokenUntil.set(model, performance.now() + BROKEN_MS);
      onBroken({ model, forMs: BROKEN_MS });
    },
    ranWell(model: string): void {
      if (lostInARow.size > 0) lostInARow.delete(model);
    },
    broken: (): BrokenModel[] =>
      Array.from(brokenUntil, ([model, until]) => ({ model, forMs: until - performance.now() })),
  };
}

function createKeySet(max: number) {
  const keys = new Set<string>();
  return {
    has: (key: string): boolean => keys.size > 0 && keys.has(key),
    add(key: string): void {
      keys.delete(key);
      keys.add(key);
      const [oldest] = keys;
      if (keys.size > max && oldest !== undefined) keys.delete(oldest);
    },
  };
}

const MIB = 1024 * 1024;

/** Returns the bytes of the function, the container or the machine that this process and its scorer leave free. */
function freeBytes(heldByScorer: number): number {
  const functionMib = Number(process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE ?? Number.POSITIVE_INFINITY);
  return Math.min(process.availableMemory(), functionMib * MIB - ownBytes() - heldByScorer);
}

function ownBytes(): number {
  try {
    return process.memoryUsage.rss();
  } catch {
    // No file descriptor is left to ask with.
    return 0;
  }
}
