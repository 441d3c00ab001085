import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { modelHint } from '../core/body.ts';
import { raceAbort } from '../core/concurrency.ts';
import { encodeError } from '../core/encode.ts';
import { type Failure, failure, isFailure } from '../core/failure.ts';
import { isObject, parseIfJson } from '../core/json.ts';
import type { ModelRepository } from '../core/model.ts';
import type { BatchMismatch, Observer } from '../core/observer.ts';
import type { TimeLimit } from '../core/record.ts';
import { isHandedBack, type KeyedBody, type Reply } from '../core/replies.ts';
import type { ReplySink } from '../core/score.ts';
import type { BatchingWatch } from '../core/verify.ts';
import type { ScoringConfig } from './config.ts';

/**
 * Where redelivered messages are scored: in a child process for each model, so that what ends the process, hangs or takes
 * all memory costs nobody but its sender. Lives as long as the host; children are started when they are needed.
 */
export interface Quarantine {
  /**
   * Scores bodies that came before, as `score` of the core does. Those of a model run together first. If that ends the
   * child, or hangs, each that has no reply runs alone, and the one that does it alone is answered with a permanent error.
   *
   * @param inHost scores those bodies, given by index, for which no child can be had, as where memory does not hold the
   *   model twice
   */
  score(bodies: readonly KeyedBody[], time: TimeLimit, sink: ReplySink, inHost: ScoreInHost): Promise<void>;
  /** Whether children can be had, as far as is known. */
  isOpen(): boolean;
  /** Whether a model ended too many children one after the other. */
  isBroken(): boolean;
}

type ScoreInHost = (bodies: readonly number[]) => Promise<void>;

/** Whose messages, or rows, they are. */
export interface QuarantineHost {
  readonly models: ModelRepository;
  /** What the host knows of its models; what children find out is added to it. */
  readonly batching: BatchingWatch;
  readonly observer: Observer;
}

interface QuarantineOptions extends QuarantineHost {
  readonly config: ScoringConfig;
  /** The folder of the model repository. */
  readonly directory: string;
  /** The names of the models that bodies may name. */
  readonly names: readonly string[];
  /** What bodies mean that name no model. @default the default model, in its highest version */
  readonly defaults?: Opening['defaults'];
  /** Told why bodies are scored in the host after all. */
  readonly warn: (message: string) => void;
  /** Told of a child that died, or was ended, in the middle of its work. */
  readonly onLost: (error: Error) => void;
}

/** To be created once the models are loaded: what the process holds then is taken for what a child needs. */
export function createQuarantine(options: QuarantineOptions): Quarantine {
  const neededBytes = process.memoryUsage.rss();
  const isShort = freeMemory() < neededBytes;
  const wards = new Map<string | undefined, Ward>();
  const wardOf = (name: string | undefined): Ward => {
    const ward = wards.get(name) ?? createWard(name, neededBytes, options);
    wards.set(name, ward);
    return ward;
  };
  const nameIn = (body: string): string | undefined => {
    const hint = modelHint(body);
    return options.names.find((name) => name === hint);
  };
  return {
    async score(bodies, time, sink, inHost) {
      const byName = Map.groupBy(bodies.entries(), ([, { body }]) => nameIn(body));
      await Promise.all(Array.from(byName, ([name, those]) => wardOf(name).score(new Map(those), time, sink, inHost)));
    },
    isOpen: () => !isShort && ![...wards.values()].some((ward) => ward.isInHost()),
    isBroken: () => [...wards.values()].some((ward) => ward.isBroken()),
  };
}

interface Ward {
  readonly score: ScoreOfModel;
  /** Whether its bodies are scored in the host for now. */
  isInHost(): boolean;
  isBroken(): boolean;
}

/** @param pending bodies by index. Those that get a reply are taken out of it */
type ScoreOfModel = (
  pending: Map<number, KeyedBody>,
  time: TimeLimit,
  sink: ReplySink,
  inHost: ScoreInHost,
) => Promise<void>;

const IDLE_MS = 60_000;
/** Where so many are lost one after the other, with no answer between, it is the model that is broken and not the messages. */
const MAX_LOST_IN_A_ROW = 8;
/** So long a model is not tried again that is broken, or that cannot be opened twice. */
const PAUSE_MS = 60_000;
/** A run that hangs is given up after half of the time that is left: less than this share of all of it proves nothing. */
const SHARE_THAT_PROVES = 1 / 8;
const MIN_MS_THAT_PROVE = 1_000;
/** A child that opens its model for longer never will. */
const MAX_OPENING_MS = 60_000;

/** @param name of the model; undefined for bodies that name none, or none that there is */
function createWard(name: string | undefined, neededBytes: number, options: QuarantineOptions): Ward {
  const { config, directory, defaults, models, batching, observer, warn, onLost } = options;
  const known = name ?? defaults?.model;
  const title = known === undefined ? 'the default model' : `model '${known}'`;
  let child: Child | undefined;
  let lostInARow = 0;
  let brokenUntil = 0;
  let inHostUntil = 0;
  let isWarned = false;

  const isInHost = (): boolean => performance.now() < inHostUntil;
  const isBroken = (): boolean => performance.now() < brokenUntil;
  const endChild = async (): Promise<void> => {
    const ending = child?.end();
    child = undefined;
    await ending;
  };
  /** The child, once its model is open; undefined where there can be none. */
  const openChild = async (signal: AbortSignal): Promise<Child | undefined> => {
    if (isInHost()) return undefined;
    const refuse = (why: string): undefined => {
      inHostUntil = performance.now() + PAUSE_MS;
      if (!isWarned) warn(`${title}: redelivered messages are scored in this process, a few at a time: ${why}`);
      isWarned = true;
    };
    // It may have been ended from outside while it was idle.
    if (child?.hasEnded()) child = undefined;
    if (child?.isOverdue()) {
      await endChild();
      return refuse(`expected their own process to open the model within ${MAX_OPENING_MS / 1000} s, it did not`);
    }
    if (child === undefined) {
      const freeBytes = freeMemory();
      if (freeBytes < neededBytes) {
        return refuse(`expected ${mebibytes(neededBytes)} MiB for a process of their own, got ${mebibytes(freeBytes)}`);
      }
      child = startChild({ config, directory, defaults, model: name }, freeBytes, learn);
    }
    // It goes on opening when there is no more time: whoever comes next finds it open.
    const refusal = await raceAbort(child.opened, signal);
    if (refusal === undefined) return child;
    await endChild();
    return refuse(refusal);
  };
  const loseChild = async ({ how }: Lost): Promise<void> => {
    onLost(new Error(`${title}: expected redelivered messages to be scored, but their process ${how}`));
    lostInARow += 1;
    if (lostInARow >= MAX_LOST_IN_A_ROW) {
      brokenUntil = performance.now() + PAUSE_MS;
      lostInARow = 0;
    }
    await endChild();
  };
  /** The most rows of a run, by what real requests have shown: what is yet to be shown a child finds out for itself. */
  const maxRowsFound = async (): Promise<number> => {
    const model = await models.find(name, undefined);
    if (isFailure(model)) return 1;
    const { maxRows, mayCut } = batching.sharingOf(model);
    const unlimited = Number.POSITIVE_INFINITY;
    return { alone: 1, proving: unlimited, together: mayCut ? unlimited : maxRows }[batching.batchingOf(model)];
  };
  const learn = async (mismatch: BatchMismatch): Promise<void> => {
    const model = await models.find(mismatch.model, mismatch.version);
    const isNews = isFailure(model) || batching.stop(model, mismatch.maxRows) !== 'alone';
    if (isNews) observer.batchMismatch(mismatch);
  };

  const scoreAll: ScoreOfModel = async (pending, time, sink, inHost) => {
    const provingMs = Math.max(MIN_MS_THAT_PROVE, time.remainingMs() * SHARE_THAT_PROVES);
    const settle = async (replies: readonly Reply[]): Promise<void> => {
      for (const { of } of replies) pending.delete(of);
      if (replies.length > 0) await sink(replies);
    };
    /** Those that were in a process when it was lost. */
    const struck = new Set<number>();
    let isAlone = pending.size === 1;
    while (pending.size > 0 && !time.signal.aborted) {
      if (isBroken()) {
        return await settle(Array.from(pending.keys(), (of) => ({ of, failure: broken(title) })));
      }
      const open = await openChild(time.signal);
      if (open === undefined) return await inHost([...pending.keys()]);
      const tried = [...pending].slice(0, isAlone ? 1 : pending.size);
      const [first, body] = tried[0] as [number, KeyedBody];
      const indexed = (reply: Reply): Reply => ({ ...reply, of: tried[reply.of]?.[0] as number });
      const wasFresh = open.isFresh();
      const bodies = tried.map(([, one]) => one);
      // A run that hangs beside others leaves time to run each of them alone.
      const remainingMs = time.remainingMs() / (isAlone ? 1 : 2);
      const work = { bodies, remainingMs, maxRows: await raceAbort(maxRowsFound(), time.signal) };
      const lost = await open.score(work, time.signal, (replies) => {
        lostInARow = 0;
        return settle(replies.flatMap((reply) => finalReply(indexed(reply), isAlone ? body : undefined, title)));
      });
      if (lost === undefined) {
        if (isAlone) pending.delete(first);
        isAlone = true;
        continue;
      }
      await loseChild(lost);
      if (isAskedToEnd(lost)) continue;
      const isHung = lost.ranMs !== undefined;
      // What takes the last memory need not be in this process.
      const isProven = isHung || struck.has(first) || (wasFresh && lost.signal !== 'SIGKILL');
      if (!isAlone || !isProven) {
        // Nobody is to blame yet: it ran beside others, or once after them.
        for (const [index] of tried) struck.add(index);
        isAlone = true;
      } else if (isHung && lost.ranMs < provingMs) {
        await settle([{ of: first, failure: TOO_SHORT }]);
      } else await settle([errorReply(first, body, isHung ? timedOut(title) : crashed(title, lost))]);
    }
  };

  let last: Promise<unknown> = Promise.resolve();
  let idle: NodeJS.Timeout | undefined;
  const score: ScoreOfModel = async (pending, time, sink, inHost) => {
    const mine = last.then(async () => {
      clearTimeout(idle);
      try {
        await scoreAll(pending, time, sink, inHost);
      } catch (error) {
        if (child?.isBusy()) await endChild();
        if (!time.signal.aborted) throw error;
      } finally {
        idle = setTimeout(() => void endChild(), IDLE_MS).unref();
      }
    });
    last = mine.catch(() => {});
    await mine;
  };
  return { score, isInHost, isBroken };
}

const MIB = 1024 * 1024;

function mebibytes(bytes: number): number {
  return Math.round(bytes / MIB);
}

/** What this process leaves of the function's memory, or of the container's or the machine's. */
function freeMemory(): number {
  const functionMib = Number(process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE ?? Number.POSITIVE_INFINITY);
  return Math.min(process.availableMemory(), functionMib * MIB - process.memoryUsage.rss());
}

/**
 * The replies to pass on. One that only says that there was no time or memory beside others is none: the body has its
 * turn alone. What has too little memory alone as well is answered.
 *
 * @param alone the body, where it ran alone
 */
function finalReply(reply: Reply, alone: KeyedBody | undefined, title: string): Reply[] {
  if (!isHandedBack(reply)) return [reply];
  const { code } = reply.failure;
  if (alone === undefined) return code === 'DEADLINE' || code === 'OUT_OF_MEMORY' ? [] : [reply];
  return [code === 'OUT_OF_MEMORY' ? errorReply(reply.of, alone, tooLarge(title, reply.failure.message)) : reply];
}

function errorReply(of: number, { key, body }: KeyedBody, failed: Failure): Reply {
  const parsed = parseIfJson(body);
  const id = isObject(parsed) && typeof parsed.id === 'string' ? parsed.id : undefined;
  return { of, id, text: encodeError(key, id, failed), failures: [failed], requests: 1 };
}

const CURE = 'do not send it again as it is: send fewer rows or other values, or mend the model';

function crashed(title: string, { how, signal }: Lost): Failure {
  // Nobody here sends it: the system does, to whom takes its last memory.
  if (signal === 'SIGKILL') return tooLarge(title, `its process ${how}`);
  return failure(
    'MODEL_CRASHED',
    `${title}: expected an answer to this request, but its process ${how}, twice; ${CURE}`,
  );
}

function timedOut(title: string): Failure {
  const message = `${title}: expected the run of this request alone to end within its share of the timeout, but it did not`;
  return failure('RUN_TIMED_OUT', `${message}; ${CURE}, or raise the timeout`);
}

function tooLarge(title: string, why: string): Failure {
  const message = `${title}: expected this request alone to fit into the memory that the host leaves, but ${why}`;
  return failure('OUT_OF_MEMORY', `${message}; send fewer rows, or deploy more memory`);
}

function broken(title: string): Failure<'MODEL_UNAVAILABLE'> {
  const message = `${title}: expected it to score redelivered messages, but it ended ${MAX_LOST_IN_A_ROW} processes in a row`;
  return failure('MODEL_UNAVAILABLE', `${message}; see the log, and mend the model`, { of: title, kind: 'refused' });
}

const TOO_SHORT = failure(
  'DEADLINE',
  'expected time enough to tell a run that hangs from a slow one, got too little after the messages before it; raise the timeout',
);

/** The first message to a child: what to open. */
export interface Opening {
  readonly config: ScoringConfig;
  /** The folder of the model repository. */
  readonly directory: string;
  /** What bodies mean that name no model. */
  readonly defaults: { readonly model: string; readonly version: string } | undefined;
  /** @default what bodies mean that name none */
  readonly model: string | undefined;
}

/** What it is to score. */
export interface Work {
  readonly bodies: readonly KeyedBody[];
  readonly remainingMs: number;
  /** The most rows of a run of the model, by what real requests have shown the host; 1: requests run alone. */
  readonly maxRows: number;
}

/** Tells it that replies are written, as well as they could be: it waits for that, as scoring in the host does. */
export interface Written {
  readonly written: number;
}

/**
 * What a child says: that its model is open, or why not; replies, numbered; that batched answers were found to differ; that a run hangs,
 * and for how long it has been under way; that it is done.
 */
export type FromChild =
  | { readonly refusal: string | undefined }
  | { readonly replies: readonly Reply[]; readonly number: number }
  | { readonly mismatch: BatchMismatch }
  | { readonly ranMs: number }
  | { readonly isDone: true };

interface Child {
  /** Why the model cannot be opened; undefined once it is. */
  readonly opened: Promise<string | undefined>;
  hasEnded(): boolean;
  /** Whether it has been opening its model for too long. */
  isOverdue(): boolean;
  /** Whether it has done nothing yet. */
  isFresh(): boolean;
  isBusy(): boolean;
  /**
   * @returns how the process was lost; undefined where it has done its work
   * @throws the signal's reason when it is aborted first: the child is busy then
   */
  score(work: Work, signal: AbortSignal, sink: ReplySink): Promise<Lost | undefined>;
  end(): Promise<void>;
}

interface Lost {
  /** `was ended by SIGSEGV`. */
  readonly how: string;
  readonly signal?: NodeJS.Signals | undefined;
  /** How long its last run had been under way, where it did not end. */
  readonly ranMs?: number | undefined;
}

/** What a terminal and a service manager send to a host and all its processes: it is the host that is to end. */
export const ASKING_TO_END = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

function isAskedToEnd({ signal }: Lost): boolean {
  return ASKING_TO_END.some((one) => one === signal);
}

const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
const CHILD_FILE = fileURLToPath(new URL(`./quarantineChild.${EXTENSION}`, import.meta.url));
/** What threads and allocators reserve and never touch. */
const RESERVED_BYTES = 512 * MIB;
/** A process cannot limit its own memory from Node: a shell does, and becomes Node. Some have no such limit. */
const LIMITED = 'ulimit -d "$0" 2>/dev/null; exec "$@"';

/**
 * @param maxBytes that it may allocate: a run that wants more fails, and takes neither child nor host
 * @param learn of batched answers that differ
 */
function startChild(opening: Opening, maxBytes: number, learn: (mismatch: BatchMismatch) => Promise<void>): Child {
  const limit = String(Math.round((maxBytes + RESERVED_BYTES) / 1024));
  const shell = { execPath: '/bin/sh', execArgv: ['-c', LIMITED, limit, process.execPath, ...process.execArgv] };
  const child = fork(CHILD_FILE, [String(process.pid)], {
    ...(process.platform !== 'win32' && shell),
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const opened = Promise.withResolvers<string | undefined>();
  const ended = Promise.withResolvers<Lost>();
  let take = (message: FromChild): void => {
    if ('refusal' in message) opened.resolve(message.refusal);
  };
  const startedAt = performance.now();
  let isOpening = true;
  let hasEnded = false;
  let isFresh = true;
  let isBusy = false;
  // The process may end while its children are idle.
  const mayEndWithout = (): void => {
    child.unref();
    child.channel?.unref();
  };
  const tell = (message: Opening | Work): void => {
    child.ref();
    child.channel?.ref();
    // Where it has gone, its end says so.
    child.send(message, () => {});
  };
  child.on('message', (message: FromChild) => take(message));
  child.on('error', ({ message }) => ended.resolve({ how: `could not be started: ${message}` }));
  child.on('close', (code, signal) => {
    ended.resolve(signal === null ? { how: `ended with code ${code}` } : { how: `was ended by ${signal}`, signal });
  });
  void ended.promise.then(({ how }) => {
    hasEnded = true;
    opened.resolve(`their own process ${how}`);
  });
  void opened.promise.then(() => {
    isOpening = false;
    mayEndWithout();
  });
  tell(opening);
  return {
    opened: opened.promise,
    hasEnded: () => hasEnded,
    isOverdue: () => isOpening && performance.now() - startedAt > MAX_OPENING_MS,
    isFresh: () => isFresh,
    isBusy: () => isBusy,
    async score(work, signal, sink) {
      isFresh = false;
      isBusy = true;
      const done = Promise.withResolvers<Lost | undefined>();
      const sinking: Promise<void>[] = [];
      take = (message) => {
        if ('replies' in message) {
          const written: Written = { written: message.number };
          const sunk = sink(message.replies.map(revived)).finally(() => child.send(written, () => {}));
          return void sinking.push(sunk);
        }
        if ('mismatch' in message) return void sinking.push(learn(message.mismatch));
        // What it says after a run that hangs is that the run is to be tried again.
        take = () => {};
        done.resolve('ranMs' in message ? { how: 'had a run that did not end', ranMs: message.ranMs } : undefined);
      };
      tell(work);
      const lost = await raceAbort(Promise.race([done.promise, ended.promise]), signal).finally(() => {
        take = () => {};
      });
      isBusy = false;
      mayEndWithout();
      await Promise.all(sinking);
      return lost;
    },
    async end() {
      child.kill('SIGKILL');
      await ended.promise;
    },
  };
}

/** A message between processes keeps the fields of a failure, and loses its class. */
function revived(reply: Reply): Reply {
  const revive = <C extends Failure['code']>({ code, message, outage }: Failure<C>) => failure(code, message, outage);
  if (isHandedBack(reply)) return { ...reply, failure: revive(reply.failure) };
  return { ...reply, failures: reply.failures.map(revive) };
}
