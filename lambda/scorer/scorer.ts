import { AsyncLocalStorage } from 'node:async_hooks';
import { waitOrAbort } from '../core/concurrency.ts';
import { encodeError } from '../core/encode.ts';
import { type Failure, failure, messageOf, PAYLOAD_BUCKET } from '../core/failure.ts';
import { parseIfJson } from '../core/json.ts';
import type { BatchMismatch, Observer } from '../core/observer.ts';
import { GRACE_MS, type PayloadReader, type TimeLimit } from '../core/record.ts';
import { isHandedBack, type KeyedBody, type Reply } from '../core/replies.ts';
import { idOf } from '../core/request.ts';
import type { CallOptions, ReplySink, ScoreBodies, ScoringLimits } from '../core/score.ts';
import type {
  Assignment,
  BrokenModel,
  DescribedModel,
  LoadSettings,
  OpenedModels,
  Repository,
  Told,
} from './frames.ts';
import { type Loss, type ScorerChild, startChild, WHOLE_BODY } from './scorerChild.ts';

/*
 * The host's side of scoring. It is long because the two ways of a call, together and alone, share what is still pending.
 */

/** The models of a host, in a process of their own: whatever a request does to it, the host goes on. */
export interface Scorer extends OpenedModels {
  /**
   * Scores bodies as the core does. If the process is lost, bodies without a reply are scored by another one, and the
   * requests that were being run when it was lost run one at a time, with nothing beside them. One that ends a process so is
   * answered with a permanent error.
   */
  readonly score: ScoreBodies;
  /** What is known of a model, which is loaded if it is not yet; the default one without a name. */
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
  /** Whether stages of the work are reported to observers. @default false */
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

/** A run that takes this many times as long as expected is taken to hang, unless it is the last try. */
const HANG_FACTOR = 4;
/**
 * So is one that takes this share of the time of its call: a run of several requests, and the first run of a request alone.
 * Nothing is decided by that, but that its requests run alone, or once more with all the time that is left. On a GPU the
 * first run of a shape takes long.
 */
const ON_CPU = { together: 1 / 30, first: 1 / 60 };
const ON_GPU = { together: 1 / 4, first: 1 / 8 };
const MIN_LIMIT_MS = 250;
/** A request that used at least this share of the whole time of its call, alone, and did not end, is answered with an error. */
const WHOLE_SHARE = 0.85;
/** A model that ended so many processes in a row, with no run that ended well in between, is left alone for a while. */
const MAX_LOST_IN_A_ROW = 16;
const BROKEN_MS = 60_000;
/** The process for requests that run alone ends when it has done nothing for this time. */
const IDLE_MS = 60_000;
/** Milliseconds until a process that cannot be started is tried again. */
const RETRY_MS = { first: 200, longest: 5_000 };
/** Requests that are known to be slow, by the key of their body: they run alone at once when they come again. */
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
  const { limits, warn, payloads, onLost } = options;
  const isOnCpu = options.load.providers[0] === 'cpu';
  const shares = isOnCpu ? ON_CPU : ON_GPU;
  const mismatches: Pick<BatchMismatch, 'model' | 'version'>[] = [];
  const slow = createKeySet(MAX_SLOW_KEYS);
  const health = createHealth((broken) => {
    for (const lane of [shared, own]) lane.current()?.leaveAlone(broken);
  });
  const start = (lane: Lane | undefined, heldByOthers: number, isFirst: boolean): ScorerChild => {
    const { repository, load, checkPercent, hasStages = false, inform, assigned, loaded } = options;
    const open = early ?? startChild(freeBytes(heldByOthers));
    early = undefined;
    return open({
      opening: {
        repository: 'path' in repository ? repository : { ...repository, preload: isFirst && repository.preload },
        load,
        limits,
        checkPercent,
        hasPayloads: payloads !== undefined,
        mismatches,
        broken: health.broken(),
        hasStages,
      },
      warn,
      inform: isFirst ? inform : undefined,
      assigned,
      loaded,
      // Other models go on in the meantime.
      onHang: lane && (async () => (opened.models.length > 1 && fitsTwice() ? lane.replace() : undefined)),
    });
  };
  const shared: Lane = createLane((isFirst) => start(shared, own.heldBytes(), isFirst), warn);
  /** Processes for requests that run alone; one at a time, and none while nothing is to run alone. */
  const own: Lane = createLane(() => start(undefined, shared.heldBytes(), false), warn, IDLE_MS);
  const fitsTwice = (): boolean => freeBytes(shared.heldBytes()) > shared.heldBytes();
  const opened = await shared.first();
  const turns = createTurns();
  const aloneTurns = createTurns();
  const note = (loss: Loss): void => {
    const { how, hungMs, model, isOpening } = loss;
    const why = hungMs === undefined ? how : `was ended: a run had not ended after ${Math.round(hungMs)} ms`;
    onLost?.(new Error(`the scorer ${why}`));
    if (model !== undefined) health.lost(model, isOpening);
  };
  const observe = (told: Told, observer: Observer): void => {
    if (told.is === 'microBatch') health.ranWell(told.report.model);
    if (told.is === 'batchMismatch') mismatches.push(told.mismatch);
    report(told, observer);
  };

  const score: ScoreBodies = async (bodies, time, sink, { observer, defaults }) => {
    const inContext = AsyncLocalStorage.snapshot();
    const wholeMs = Math.max(1, time.remainingMs() - limits.deadlineMarginMs);
    const pending = new Map(bodies.entries());
    const suspects = new Map<number, Suspect>();
    const around = { time, payloads, defaults, tell: (told: Told) => inContext(observe, told, observer) };
    const pass = async (replies: readonly Reply[]): Promise<void> => {
      const fresh = replies.filter(({ of }) => pending.delete(of));
      if (fresh.length > 0) await inContext(sink, fresh);
    };

    for (const [index, { key }] of pending) if (slow.has(key)) suspects.set(index, newSuspect(true));
    await scoreTogether();
    if (suspects.size > 0 && !time.signal.aborted) await aloneTurns.have(time, scoreSuspects);

    async function scoreTogether(): Promise<void> {
      let loss: Loss | undefined;
      do {
        const some = [...pending].filter(([index]) => !suspects.has(index));
        if (some.length === 0) return;
        loss = await turns.share(async () => {
          const child = await shared.open(time.signal);
          const limitMs = (expectedMs: number) => limitOf(expectedMs, shares.together, wholeMs);
          return child && runIn(child, some, { ...around, isAlone: false, limitMs, take });
        });
        if (loss === undefined) return;
        note(loss);
        const blamed = loss.blamed === 'all' ? some.keys() : loss.blamed.map(({ body }) => body);
        for (const at of blamed) {
          const index = some[at]?.[0];
          if (index !== undefined && pending.has(index)) suspects.set(index, newSuspect());
        }
      } while (!time.signal.aborted);
    }
    /** What does not fit into memory beside others runs alone. */
    function take(replies: readonly Reply[]): Promise<void> {
      const isTooLarge = (reply: Reply) => isHandedBack(reply) && reply.failure.code === 'OUT_OF_MEMORY';
      for (const reply of replies) if (isTooLarge(reply)) suspects.set(reply.of, newSuspect());
      return pass(replies.filter((reply) => !isTooLarge(reply)));
    }

    /** First with little time each, so that one that hangs leaves time to the others; then each with all that is left. */
    async function scoreSuspects(): Promise<void> {
      const fits = fitsTwice();
      const work = async (): Promise<void> => {
        const lane = fits ? own : shared;
        const first = [...suspects].filter(([, { isSlow }]) => !isSlow).map(([index]) => index);
        if (suspects.size > 1) {
          const limitMs = (expectedMs: number) => limitOf(expectedMs, shares.first, wholeMs);
          await runAlone(
            lane,
            first,
            () => limitMs,
            async (index) => slow.add(keyOf(index)),
          );
        }
        for (const index of suspects.keys()) {
          if (!pending.has(index) || time.signal.aborted) continue;
          const allThatIsLeft = () => {
            const limitMs = time.remainingMs() - limits.deadlineMarginMs;
            return () => limitMs;
          };
          await runAlone(lane, [index], allThatIsLeft, async (_, position, loss) => {
            slow.add(keyOf(index));
            if (Number(loss.hungMs) >= WHOLE_SHARE * wholeMs) await convict(index, position, conviction(loss));
            else await pass([{ of: index, failure: TOO_SHORT }]);
          });
        }
      };
      await (fits ? work() : turns.have(time, work));
    }
    async function runAlone(
      lane: Lane,
      indexes: readonly number[],
      limit: () => (expectedMs: number) => number,
      onHung: (index: number, position: number, loss: Loss) => Promise<void>,
    ): Promise<void> {
      const left = new Set(indexes);
      while (!time.signal.aborted) {
        const some = [...left].filter((index) => pending.has(index)).map((index) => [index, bodyOf(index)] as const);
        const child = some.length === 0 ? undefined : await lane.open(time.signal);
        if (child === undefined) return;
        time.renew?.();
        const take = (replies: readonly Reply[]) => pass(replies.map(final));
        const loss = await runIn(child, some, { ...around, isAlone: true, limitMs: limit(), take });
        if (loss === undefined) return;
        note(loss);
        const [blamed] = loss.blamed === 'all' ? [] : loss.blamed;
        const index = blamed && some[blamed.body]?.[0];
        if (blamed === undefined || index === undefined || !pending.has(index)) continue;
        if (loss.hungMs !== undefined) {
          left.delete(index);
          await onHung(index, blamed.position, loss);
          continue;
        }
        const suspect = suspects.get(index) as Suspect;
        suspect.crashes += 1;
        // The kernel ends this process also for memory that others hold.
        if (loss.signal !== 'SIGKILL' || suspect.crashes > 1) await convict(index, blamed.position, conviction(loss));
      }
    }
    function keyOf(index: number): string {
      return (bodies[index] as KeyedBody).key;
    }
    function bodyOf(index: number): KeyedBody {
      const body = bodies[index] as KeyedBody;
      const refused = suspects.get(index)?.refused;
      return refused === undefined || refused.size === 0 ? body : { ...body, refused };
    }
    /** A request of a packed body is answered by itself: the body is scored again without it. */
    async function convict(index: number, position: number, failed: Failure): Promise<void> {
      const suspect = suspects.get(index) as Suspect;
      const { body } = bodies[index] as KeyedBody;
      suspect.crashes = 0;
      if (position === WHOLE_BODY || !isPackedBody(body)) await pass([errorReply(index, failed)]);
      else suspect.refused.set(position, failed);
    }
    function errorReply(of: number, failed: Failure): Reply {
      const { key, body } = bodies[of] as KeyedBody;
      return { of, text: encodeError(key, idOf(parseIfJson(body)), failed), failures: [failed], requests: 1 };
    }
    function final(reply: Reply): Reply {
      if (!isHandedBack(reply) || reply.failure.code !== 'OUT_OF_MEMORY') return reply;
      return errorReply(reply.of, tooLarge(reply.failure.message));
    }
  };
  return {
    ...opened,
    score,
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

/** A body that may have ended a process, or hung. */
interface Suspect {
  /** Whether it is known to need more time than others. */
  readonly isSlow: boolean;
  /** Requests of a packed body that were found out, by position. */
  readonly refused: Map<number, Failure>;
  /** Processes that it ended alone. */
  crashes: number;
}

function newSuspect(isSlow = false): Suspect {
  return { isSlow, refused: new Map(), crashes: 0 };
}

function isPackedBody(body: string): boolean {
  return /^\s*\[/.test(body);
}

function limitOf(expectedMs: number, share: number, wholeMs: number): number {
  return Math.max(MIN_LIMIT_MS, share * wholeMs, HANG_FACTOR * expectedMs);
}

interface RunOptions {
  readonly isAlone: boolean;
  readonly limitMs: (expectedMs: number) => number;
  readonly take: ReplySink;
}

interface CallAround {
  readonly time: TimeLimit;
  readonly tell: (told: Told) => void;
  readonly payloads: PayloadReader | undefined;
  readonly defaults: CallOptions['defaults'];
}

/**
 * One call of a process. Replies come under the indexes of the bodies.
 *
 * @returns how the process was lost, its places by position in `some`; undefined if the call ended, or its time did
 */
async function runIn(
  child: ScorerChild,
  some: readonly (readonly [index: number, body: KeyedBody])[],
  { isAlone, limitMs, take, time, tell, payloads, defaults }: RunOptions & CallAround,
): Promise<Loss | undefined> {
  const indexOf = (at: number): number => some[at]?.[0] as number;
  const taking = new Set<Promise<void>>();
  let isOver = false;
  const call = child.score({
    bodies: some.map(([, body]) => body),
    remainingMs: time.remainingMs(),
    isAlone,
    defaults,
    limitMs,
    tell(told) {
      if (told.is === 'microBatch') tell({ ...told, bodies: told.bodies.map(indexOf) });
      else tell(told);
    },
    signal: time.signal,
    readPayload: (pointer, how) => payloads?.read(pointer, how) ?? Promise.resolve(NO_BUCKET),
    async take(replies) {
      if (isOver) return;
      const taken = take(replies.map((reply) => ({ ...reply, of: indexOf(reply.of) })));
      taking.add(taken);
      await taken;
      taking.delete(taken);
    },
  });
  const onAbort = (): void => call.abort();
  if (time.signal.aborted) onAbort();
  time.signal.addEventListener('abort', onAbort, { once: true });
  let loss: Loss | undefined;
  await waitOrAbort(
    call.lost.then((gone) => {
      loss = gone;
    }),
    time.signal,
    GRACE_MS,
  );
  time.signal.removeEventListener('abort', onAbort);
  isOver = true;
  await Promise.all(taking);
  return loss;
}

const NO_BUCKET = failure('PAYLOAD_UNAVAILABLE', 'expected a payload bucket to read from, got none', {
  of: PAYLOAD_BUCKET,
  kind: 'refused',
});

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

const CURE = 'do not send it again as it is: send fewer rows or other values, or mend the model';

function conviction({ how, signal, hungMs, model }: Loss): Failure {
  const of = model === undefined ? '' : `model '${model}': `;
  if (hungMs !== undefined) {
    const message = `${of}expected this request alone to end within the time of its host, it did not within ${Math.round(hungMs)} ms`;
    return failure('RUN_TIMED_OUT', `${message}; ${CURE}, or raise the timeout`);
  }
  if (signal === 'SIGKILL') return tooLarge(`${of}its process ${how}, twice`);
  return failure('MODEL_CRASHED', `${of}expected an answer to this request, but alone its process ${how}; ${CURE}`);
}

function tooLarge(why: string): Failure {
  const message = `expected this request alone to fit into the memory that the host leaves, but ${why}`;
  return failure('OUT_OF_MEMORY', `${message}; send fewer rows, or deploy more memory`);
}

const TOO_SHORT = failure(
  'DEADLINE',
  'expected the run of this request alone to end within the time that was left; it gets more when it comes again',
);

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
    delete: (key: string): boolean => keys.delete(key),
  };
}

/** One process after the other. */
interface Lane {
  /** Starts the first process. @throws Error if its models cannot be opened */
  first(): Promise<OpenedModels>;
  /**
   * The process, once its models are open. One that cannot be started is tried again, for as long as there is time.
   *
   * @returns undefined when the signal is aborted, or the lane is closed
   */
  open(signal: AbortSignal): Promise<ScorerChild | undefined>;
  /** Starts the next process beside this one, and has it take its place once its models are open. */
  replace(): Promise<void>;
  current(): ScorerChild | undefined;
  /** Bytes that its process holds, or the one before it held. */
  heldBytes(): number;
  close(): Promise<void>;
}

/**
 * @param start starts a process
 * @param warn told why a process cannot be started, but for the first one
 * @param idleMs after which a process ends that nobody needs. @default it never does, and the next is started when it is lost
 */
function createLane(start: (isFirst: boolean) => ScorerChild, warn: (message: string) => void, idleMs?: number): Lane {
  let current: ScorerChild | undefined;
  let isClosed = false;
  let wasOpen = idleMs !== undefined;
  let held = 0;
  let failures = 0;
  let retryAt = 0;
  let idle: NodeJS.Timeout | undefined;
  const failed = (error: unknown): void => {
    warn(`${messageOf(error)}; it is tried again`);
    failures += 1;
    retryAt = performance.now() + Math.min(RETRY_MS.longest, RETRY_MS.first * 2 ** (failures - 1));
  };
  const take = (child: ScorerChild): void => {
    current = child;
    const forget = (): void => {
      if (current === child) current = undefined;
    };
    child.opened.then(
      () => {
        wasOpen = true;
        failures = 0;
        held = child.heldBytes();
        void child.ended.then(() => {
          const wasCurrent = current === child;
          forget();
          if (wasCurrent && !isClosed && idleMs === undefined) tryNext();
        });
      },
      (error: unknown) => {
        forget();
        if (wasOpen) failed(error);
      },
    );
  };
  const tryNext = (): void => {
    try {
      take(start(false));
    } catch (error) {
      failed(error);
    }
  };
  return {
    first() {
      take(start(true));
      return (current as ScorerChild).opened;
    },
    async open(signal) {
      clearTimeout(idle);
      while (!isClosed && !signal.aborted) {
        const waitMs = current === undefined ? retryAt - performance.now() : 0;
        if (waitMs > 0) await waitOrAbort(after(waitMs), signal);
        else if (current === undefined) tryNext();
        const child = current;
        if (child === undefined) continue;
        await waitOrAbort(Promise.allSettled([child.opened]), signal);
        if (current !== child || child.hasEnded() || signal.aborted) continue;
        if (idleMs !== undefined) idle = setTimeout(() => void child.end(), idleMs).unref();
        return child;
      }
      return undefined;
    },
    async replace() {
      const before = current;
      const next = start(false);
      await next.opened;
      if (current === before && !isClosed) take(next);
      else await next.end();
    },
    current: () => current,
    heldBytes() {
      held = Math.max(held, current?.heldBytes() ?? 0);
      return held;
    },
    async close() {
      isClosed = true;
      clearTimeout(idle);
      await current?.end();
    },
  };
}

/** Work that shares something, and work that has it to itself; the latter comes first. */
function createTurns() {
  let sharing = 0;
  let having = 0;
  let isHad = false;
  let changed = Promise.withResolvers<void>();
  const change = (): void => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  return {
    async share<T>(work: () => Promise<T>): Promise<T> {
      while (having > 0) await changed.promise;
      sharing += 1;
      try {
        return await work();
      } finally {
        sharing -= 1;
        change();
      }
    },
    /** Does no work if the time is over first. A time that can be renewed does not run meanwhile. */
    async have(time: TimeLimit, work: () => Promise<void>): Promise<void> {
      having += 1;
      try {
        while ((sharing > 0 || isHad) && !time.signal.aborted) {
          time.renew?.();
          await waitOrAbort(Promise.race([changed.promise, after(RENEW_MS)]), time.signal);
        }
        if (time.signal.aborted) return;
        isHad = true;
        try {
          await work();
        } finally {
          isHad = false;
        }
      } finally {
        having -= 1;
        change();
      }
    },
  };
}

const RENEW_MS = 500;

function after(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

const MIB = 1024 * 1024;

/** What this process, and a scorer that holds so much, leave of the function's memory, or of the container's or the machine's. */
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
