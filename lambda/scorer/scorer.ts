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
import { type ScorerChild, type StartedChild, startChild } from './scorerChild.ts';
import { type CallContext, ScoringCall } from './scoringCall.ts';

/** Models of a host, in a process of their own. The host survives whatever a request does to that process. */
export interface Scorer extends OpenedModels {
  /**
   * Scores bodies like the core. If the process is lost, another one scores the remaining bodies. The requests that
   * were running at the loss run one at a time, with nothing beside them. A request that then ends a process is
   * answered with a permanent error.
   */
  readonly score: ScoreBodies;
  /** Describes a model, or the default model without a name. It loads the model if necessary. */
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
  /** True to report stages of the work to observers. @default false */
  readonly hasStages?: boolean;
  /** True if its processes get only the processor time that others leave, and about a tenth if they leave none. @default false */
  readonly isBackground?: boolean;
  /** Takes a message about something that works but not well. */
  readonly warn: (message: string) => void;
  /** Takes findings about each loaded model. @default ignored */
  readonly inform?: ((message: string) => void) | undefined;
  /** Takes the provider and devices of a loaded model. @default ignored */
  readonly assigned?: ((assignment: Assignment) => void) | undefined;
  /** Takes the number of rows that were compared when a model was loaded. @default ignored */
  readonly loaded?: ((probes: number) => void) | undefined;
  /** Called for each lost process, but not for one that `close` ends. @default ignored */
  readonly onLost?: ((error: Error) => void) | undefined;
}

/**
 * Shares of a call's time after which a run counts as hung. The requests are not failed: they then run alone, first
 * briefly and then with all the time left. The first run of a shape takes long on a GPU.
 */
const LIMITS = { cpu: { together: 1 / 30, first: 1 / 60 }, gpu: { together: 1 / 4, first: 1 / 8 } };
/** Number of processes in a row that a model may end, without a good run, before it is not used for a while. */
const MAX_LOST_IN_A_ROW = 16;
const BROKEN_MS = 60_000;
/** Idle time after which the process for requests that run alone ends. */
const IDLE_MS = 60_000;
const MAX_SLOW_KEYS = 10_000;

let early: StartedChild | undefined;

/** Starts the process of the next scorer, which loads its code while the host loads its own. */
export function startScorerEarly(): void {
  early ??= tryToStart(freeBytes(0));
}

/** Starts a process that is not needed yet. If that fails, it is tried again, and reported, when it is needed. */
function tryToStart(maxBytes: number): StartedChild | undefined {
  try {
    return startChild(maxBytes);
  } catch {
    return undefined;
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
  let spare: StartedChild | undefined;
  const start = (lane: Lane | undefined, started: StartedChild, which: StartOf): ScorerChild => {
    return openIn(started, options, {
      which,
      mismatches,
      broken: health.broken(),
      // Other models continue meanwhile.
      onHang: lane && (async () => (opened.models.length > 1 && fitsTwice() ? lane.replace() : undefined)),
    });
  };
  const shared: Lane = createLane((which) => {
    const started = early ?? startChild(freeBytes(own.heldBytes()));
    early = undefined;
    return start(shared, started, which);
  }, warn);
  const startOwn = (which: StartOf): ScorerChild => {
    // Before the process holds anything, so that the spare one is allowed as much.
    const maxBytes = freeBytes(shared.heldBytes());
    const child = start(undefined, spare ?? startChild(maxBytes), 'next');
    // Where one request has ended its process, another may: the next process loads its code meanwhile.
    const heldBytes = shared.heldBytes() + own.heldBytes();
    spare = which === 'next' && freeBytes(heldBytes) > shared.heldBytes() ? tryToStart(maxBytes) : undefined;
    return child;
  };
  const own: Lane = createLane(startOwn, warn, {
    afterMs: IDLE_MS,
    begins() {
      spare?.end();
      spare = undefined;
    },
  });
  const fitsTwice = (): boolean => freeBytes(shared.heldBytes()) > shared.heldBytes();
  const opened = await shared.first();
  let isClosed = false;
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
    note: createNotes(health, (error) => {
      if (!isClosed) options.onLost?.(error);
    }),
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
        // If a process is lost during the question, its successor does not use the model that caused it.
        const model = await child.describe(name, version).catch(() => undefined);
        if (model !== undefined) return model;
        await child.ended;
      }
    },
    async close() {
      isClosed = true;
      await Promise.all([shared.close(), own.close()]);
    },
  };
}

const NEVER = new AbortController().signal;

type Mismatch = Pick<BatchMismatch, 'model' | 'version'>;

interface Starting {
  /** The first process of a host reports findings about each model. Later ones load models when requests name them. */
  readonly which: StartOf;
  readonly mismatches: readonly Mismatch[];
  readonly broken: readonly BrokenModel[];
  readonly onHang: (() => Promise<void>) | undefined;
}

/** Opens the models in a process. */
function openIn(started: StartedChild, options: ScorerOptions, starting: Starting): ScorerChild {
  const { repository, load, limits, checkPercent, payloads, hasStages = false, isBackground = false } = options;
  const { warn, inform, assigned, loaded } = options;
  const { which, mismatches, broken, onHang } = starting;
  const preload = which !== 'next';
  return started.open({
    opening: {
      ...{ load, limits, checkPercent, mismatches, broken, hasStages, isBackground },
      repository: 'path' in repository ? repository : { ...repository, preload: preload && repository.preload },
      hasPayloads: payloads !== undefined,
    },
    ...{ warn, assigned, loaded, onHang },
    inform: which === 'first' ? inform : undefined,
  });
}

/** Records each lost process once, although each of its calls reports it. */
function createNotes(health: ReturnType<typeof createHealth>, onLost: (error: Error) => void): CallContext['note'] {
  const noted = new WeakSet<ScorerChild>();
  return (child, { how, hungMs, model, isOpening }) => {
    if (noted.has(child)) return;
    noted.add(child);
    const why = hungMs === undefined ? how : `was ended: a run had not ended after ${Math.round(hungMs)} ms`;
    onLost(new Error(`the scorer ${why}`));
    if (model !== undefined) health.recordLoss(model, isOpening);
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

/** Tracks models that end processes without a successful run in between. */
function createHealth(onBroken: (broken: BrokenModel) => void) {
  const lostInARow = new Map<string, number>();
  const brokenUntil = new Map<string, number>();
  return {
    /** @param isOpening true if the model was being opened: it cannot be used then */
    recordLoss(model: string, isOpening: boolean): void {
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

/** Returns the memory of the function, container or machine that is not used by this process and its scorer. */
function freeBytes(heldByScorer: number): number {
  const functionMib = Number(process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE ?? Number.POSITIVE_INFINITY);
  return Math.min(process.availableMemory(), functionMib * MIB - ownBytes() - heldByScorer);
}

function ownBytes(): number {
  try {
    return process.memoryUsage.rss();
  } catch {
    // No file descriptor is left to read with.
    return 0;
  }
}
