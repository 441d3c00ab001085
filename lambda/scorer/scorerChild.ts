import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { type Failure, isFailure } from '../core/failure.ts';
import type { PayloadReader } from '../core/record.ts';
import type { KeyedBody, Reply } from '../core/replies.ts';
import type { CallOptions } from '../core/score.ts';
import { RUNTIME_TELEMETRY_OFF } from '../settings.ts';
import {
  type Assignment,
  type Blame,
  type BrokenModel,
  createFrameReader,
  type DescribedModel,
  encodeFrame,
  type FromScorer,
  type OpenedModels,
  type Opening,
  type PlainReplies,
  revived,
  type Told,
  type ToScorer,
} from './frames.ts';

/** One scorer process, from its start to its end. It takes calls once it has opened its models. */
export interface ScorerChild {
  /** Rejects with why the models cannot be opened, or how the process was lost meanwhile. */
  readonly opened: Promise<OpenedModels>;
  /** Resolves when the process has ended, with how. */
  readonly ended: Promise<Ended>;
  hasEnded(): boolean;
  /** Bytes that it holds; 0 if the system does not say. */
  heldBytes(): number;
  /** What is known of a model, which is loaded if it is not yet. @throws Error when the process ends first */
  describe(name: string | undefined, version: string | undefined): Promise<DescribedModel | Failure>;
  /**
   * Scores bodies.
   *
   * @returns how the process was lost; undefined if the call has ended
   */
  score(call: ChildCall): { readonly lost: Promise<Loss | undefined>; abort(): void };
  /** Has requests of a model handed back. */
  leaveAlone(broken: BrokenModel): void;
  /** Ends the process, whatever it is doing. */
  end(): Promise<void>;
}

export interface ChildCall {
  readonly bodies: readonly KeyedBody[];
  readonly remainingMs: number;
  readonly isAlone: boolean;
  readonly defaults: CallOptions['defaults'];
  /** Milliseconds that a run, or a transform that blocks, may take which is expected to take so many. */
  readonly limitMs: (expectedMs: number) => number;
  /** Takes replies. Resolves once there is memory for more. */
  readonly take: (replies: readonly Reply[]) => Promise<void>;
  readonly tell: (told: Told) => void;
  readonly readPayload: PayloadReader['read'];
  readonly signal: AbortSignal;
}

export interface Ended {
  /** `was ended by SIGSEGV`. */
  readonly how: string;
  readonly signal?: NodeJS.Signals | undefined;
}

/** In place of a position: all requests of a body, none of which was at work by itself. */
export const WHOLE_BODY = -1;

/** How a process was lost, and what of a call is to blame. */
export interface Loss extends Ended {
  /** Requests of the call that were being run, or in a transform; `all`: nobody knows. */
  readonly blamed: readonly { readonly body: number; readonly position: number }[] | 'all';
  /** The model that was at work, if one was. */
  readonly model: string | undefined;
  /** Whether the model was being opened. */
  readonly isOpening: boolean;
  /** Milliseconds that what was at work had taken when the host ended the process for it. */
  readonly hungMs?: number | undefined;
}

export interface ChildOptions {
  readonly opening: Omit<Opening, 'clockStart'>;
  readonly warn: (message: string) => void;
  readonly inform?: ((message: string) => void) | undefined;
  readonly assigned?: ((assignment: Assignment) => void) | undefined;
  readonly loaded?: ((probes: number) => void) | undefined;
  /** Told that the process hangs. It is ended once this resolves. @default at once */
  readonly onHang?: (() => Promise<void>) | undefined;
}

interface ActiveCall extends ChildCall {
  readonly lost: PromiseWithResolvers<Loss | undefined>;
  /** Characters of answers that are written, and that the scorer was not told of. */
  written: number;
  /** Body that the call works on alone. */
  body: number | undefined;
  /** Milliseconds since the call was aborted; undefined before. */
  abortedMs: number | undefined;
}

interface Work {
  readonly model: string;
  readonly call: ActiveCall | undefined;
  readonly isOpening: boolean;
  readonly isRun: boolean;
  readonly expectedMs: number;
  readonly places: Int32Array;
  ageMs: number;
}

/** Bodies are sent so many characters at a time: what is copied then is still in the cache of the processor. */
const FRAME_CHARACTERS = 128 * 1024;
/** The scorer may have four times as many that are not written. */
const CHARACTERS_TO_TELL = 1024 * 1024;
/** How often it is looked at how long work takes. */
const LOOK_MS = 100;
/** If two looks are further apart, this process stood still in between: that time is nobody's. */
const LONGEST_LOOK_MS = 3_000;
/** An aborted call in which nothing is at work must end within this time. */
const ABORTED_MS = 5_000;
/** After the process has ended, what it wrote last is read for so long at most: one of its own children may hold the pipes. */
const LAST_WORDS_MS = 500;
/** A process that opens its models for longer never will. */
const MAX_OPENING_MS = 900_000;

/**
 * Starts a process, which loads its code while it waits for what to open.
 *
 * @param maxBytes that it may allocate: a run that wants more fails, and takes neither scorer nor host
 * @returns what has it open models
 * @throws Error when the system cannot start a process
 */
export function startChild(maxBytes: number): (options: ChildOptions) => ScorerChild {
  const hasShell = process.platform !== 'win32' && existsSync(SHELL);
  const child = spawnScorer(hasShell ? maxBytes : Number.POSITIVE_INFINITY);
  return (options) => {
    if (!hasShell) options.warn(NO_SHELL);
    return serve(child, options);
  };
}

function serve(child: ChildProcess, { opening, warn, inform, assigned, loaded, onHang }: ChildOptions): ScorerChild {
  const [, , , frames, blames] = child.stdio;
  if (!(frames instanceof Socket && blames instanceof Socket)) throw new Error('scorer has no pipes');
  const opened = Promise.withResolvers<OpenedModels>();
  const ended = Promise.withResolvers<Ended>();
  const calls = new Map<number, ActiveCall>();
  const works = new Map<number, Work>();
  const descriptions = new Map<number, PromiseWithResolvers<DescribedModel | Failure>>();
  const rooms = new Map<number, () => void>();
  let isEnded = false;
  let numbers = 0;
  let hung: { readonly work: Work | undefined; readonly ms: number } | undefined;
  let lookedAt = performance.now();
  let looking: NodeJS.Timeout | undefined;

  const tell = (frame: ToScorer, texts?: readonly string[]): void => {
    if (!isEnded) frames.write(encodeFrame(frame, texts));
  };
  /** The process may end while its scorer has nothing to do. */
  const mayEnd = (is: boolean): void => {
    for (const handle of [child, frames, blames]) {
      if (is) handle.unref();
      else handle.ref();
    }
  };
  const isIdle = (): boolean => calls.size === 0 && descriptions.size === 0;
  const began = (): void => {
    mayEnd(false);
    if (looking !== undefined) return;
    lookedAt = performance.now();
    looking = setInterval(look, LOOK_MS).unref();
  };
  const settled = (): void => {
    if (!isIdle()) return;
    mayEnd(true);
    clearInterval(looking);
    looking = undefined;
  };
  /** Time in which this process or the scorer stood still is nobody's. */
  const look = (): void => {
    const now = performance.now();
    const passedMs = now - lookedAt > LONGEST_LOOK_MS ? LOOK_MS : now - lookedAt;
    lookedAt = now;
    const isOld =
      [...works.values()].some(({ ageMs }) => ageMs > LOOK_MS) ||
      [...calls.values()].some(({ abortedMs }) => abortedMs);
    if (hung !== undefined || (isOld && isStopped(child.pid))) return;
    for (const work of works.values()) {
      work.ageMs += passedMs;
      if (work.call === undefined || work.ageMs <= work.call.limitMs(work.expectedMs)) continue;
      give(work);
      return;
    }
    const atWork = new Set(Array.from(works.values(), ({ call }) => call));
    for (const call of calls.values()) {
      if (call.abortedMs === undefined || atWork.has(call)) continue;
      call.abortedMs += passedMs;
      if (call.abortedMs <= ABORTED_MS) continue;
      give(undefined);
      return;
    }
  };
  const give = (work: Work | undefined): void => {
    hung = { work, ms: work?.ageMs ?? 0 };
    const kill = (): void => void child.kill('SIGKILL');
    if (onHang === undefined) kill();
    else onHang().then(kill, kill);
  };

  const take = (frame: FromScorer, texts: readonly string[]): void => {
    switch (frame.is) {
      case 'opened':
        opened.resolve(frame.opened);
        break;
      case 'refused':
        opened.reject(new Error(frame.error));
        break;
      case 'warn':
        warn(frame.message);
        break;
      case 'inform':
        inform?.(frame.message);
        break;
      case 'warning':
        process.emitWarning(frame.message, frame.name);
        break;
      case 'assigned':
        assigned?.(frame.assignment);
        break;
      case 'loaded':
        loaded?.(frame.probes);
        break;
      case 'described': {
        const { model } = frame;
        descriptions.get(frame.ask)?.resolve('failed' in model ? revived(model) : model);
        descriptions.delete(frame.ask);
        settled();
        break;
      }
      case 'ended':
        works.delete(frame.work);
        break;
      case 'replies':
        takeReplies(frame, texts);
        break;
      case 'done':
        takeDone(frame);
        break;
      case 'read':
        void read(frame);
        break;
      case 'room':
        rooms.get(frame.ask)?.();
        break;
      case 'alive':
        for (const work of works.values()) if (!work.isRun) work.ageMs = 0;
    }
  };
  const takeReplies = (frame: Extract<FromScorer, { is: 'replies' }>, texts: readonly string[]): void => {
    const call = calls.get(frame.call);
    if (call === undefined) return;
    for (const told of frame.told) call.tell(told);
    const characters = texts.reduce((sum, { length }) => sum + length, 0);
    void call.take(repliesOf(frame.replies, texts)).then(() => {
      call.written += characters;
      if (call.written < CHARACTERS_TO_TELL) return;
      tell({ is: 'written', call: frame.call, characters: call.written });
      call.written = 0;
    });
  };
  const takeDone = ({ call: number, told }: Extract<FromScorer, { is: 'done' }>): void => {
    const call = calls.get(number);
    if (call === undefined) return;
    for (const one of told) call.tell(one);
    calls.delete(number);
    call.lost.resolve(undefined);
    settled();
  };
  const read = async ({ ask, call: number, pointer }: Extract<FromScorer, { is: 'read' }>): Promise<void> => {
    const call = calls.get(number);
    if (call === undefined) return;
    const admit = async (bytes: number): Promise<void> => {
      const room = Promise.withResolvers<void>();
      rooms.set(ask, room.resolve);
      tell({ is: 'size', ask, bytes });
      await room.promise;
    };
    const text = await call.readPayload(pointer, { admit, signal: call.signal });
    rooms.delete(ask);
    if (isFailure(text)) tell({ is: 'payload', ask, failure: text });
    else tell({ is: 'payload', ask, failure: undefined }, [text]);
  };
  const takeBlame = (frame: Blame): void => {
    if (frame.is === 'ends') {
      works.delete(frame.work);
      return;
    }
    if (frame.is === 'body') {
      const call = calls.get(frame.call);
      if (call !== undefined) call.body = frame.body;
      return;
    }
    const isOpening = frame.is === 'opens';
    const about = isOpening
      ? { call: undefined, isRun: true, expectedMs: 0, places: new Int32Array() }
      : { ...frame, call: calls.get(frame.call) };
    works.set(frame.work, { ...about, isOpening, model: frame.model, ageMs: 0 });
  };

  frames.on('data', createFrameReader<FromScorer>(take));
  blames.on('data', createFrameReader<Blame>(takeBlame));
  const overdue = setTimeout(() => child.kill('SIGKILL'), MAX_OPENING_MS).unref();
  void opened.promise.then(
    () => clearTimeout(overdue),
    () => child.kill('SIGKILL'),
  );
  void endOf(child, [frames, blames]).then((end) => {
    isEnded = true;
    clearInterval(looking);
    clearTimeout(overdue);
    opened.reject(new Error(whileOpening(end, [...works.values()])));
    for (const one of descriptions.values()) one.reject(new Error(`the scorer ${end.how}`));
    for (const call of calls.values()) call.lost.resolve(lossOf(call, end, [...works.values()], hung));
    calls.clear();
    ended.resolve(end);
  });
  tell({ is: 'open', opening: { ...opening, clockStart: Number(process.hrtime.bigint()) / 1e6 - performance.now() } });
  opened.promise.then(settled, () => {});
  return {
    opened: opened.promise,
    ended: ended.promise,
    hasEnded: () => isEnded,
    heldBytes: () => heldBytes(child.pid),
    describe(name, version) {
      const ask = numbers++;
      const answer = Promise.withResolvers<DescribedModel | Failure>();
      if (isEnded) return Promise.reject(new Error('the scorer has ended'));
      descriptions.set(ask, answer);
      began();
      tell({ is: 'describe', ask, name, version });
      return answer.promise;
    },
    score(call) {
      const number = numbers++;
      const active: ActiveCall = {
        ...call,
        lost: Promise.withResolvers(),
        written: 0,
        body: undefined,
        abortedMs: undefined,
      };
      if (isEnded) active.lost.resolve({ how: 'had ended', blamed: [], model: undefined, isOpening: false });
      else {
        calls.set(number, active);
        began();
      }
      const { bodies, remainingMs, isAlone, defaults } = call;
      const refusals = bodies.flatMap(({ refused = [] }, body) =>
        Array.from(refused, ([position, failure]) => ({ body, position, failure })),
      );
      let texts: string[] = [];
      let characters = 0;
      for (const { key, body } of bodies) {
        texts.push(key, body);
        characters += body.length;
        if (characters < FRAME_CHARACTERS) continue;
        tell({ is: 'bodies', call: number }, texts);
        texts = [];
        characters = 0;
      }
      tell({ is: 'score', call: number, remainingMs, isAlone, defaults, refusals }, texts);
      return {
        lost: active.lost.promise,
        abort() {
          active.abortedMs ??= 0;
          tell({ is: 'abort', call: number });
        },
      };
    },
    leaveAlone: (broken) => tell({ is: 'broken', broken }),
    async end() {
      mayEnd(false);
      child.kill('SIGKILL');
      await ended.promise;
    },
  };
}

function repliesOf({ of, notes, handedBack }: PlainReplies, texts: readonly string[]): Reply[] {
  const answers = texts.map((text, at): Reply => ({ of: of[at] as number, text, failures: [], requests: 1 }));
  for (const { at, failures, requests } of notes) {
    answers[at] = { of: of[at] as number, text: texts[at] as string, failures: failures.map(revived), requests };
  }
  const back = handedBack.map((failure, index): Reply => {
    return { of: of[texts.length + index] as number, failure: revived(failure) };
  });
  return [...answers, ...back];
}

/** Only what is at work is to blame: for a process that was ended by its host, what took too long. */
function lossOf(
  call: ActiveCall,
  end: Ended,
  works: readonly Work[],
  hung: { readonly work: Work | undefined; readonly ms: number } | undefined,
): Loss {
  const guilty = hung?.work === undefined ? works : [hung.work];
  const mine = guilty.filter((work) => work.call === call);
  const names = new Set((mine.length > 0 ? mine : guilty).map(({ model }) => model));
  const places = mine.flatMap(({ places }) =>
    Array.from({ length: places.length / 2 }, (_, index) => ({
      body: places[2 * index] as number,
      position: places[2 * index + 1] as number,
    })),
  );
  return {
    ...end,
    blamed: call.body === undefined ? (guilty.length === 0 ? 'all' : places) : blamedAlone(call.body, places),
    model: names.size === 1 ? [...names][0] : undefined,
    // A process that its host ended may have opened a model meanwhile, which is not why.
    isOpening: hung === undefined && guilty.length === 1 && guilty[0]?.isOpening === true,
    ...(hung && { hungMs: hung.ms }),
  };
}

/** Of requests that run one after the other the last one that began; all of the body if none had. */
function blamedAlone(body: number, places: readonly { readonly body: number; readonly position: number }[]) {
  return [places.findLast((place) => place.body === body) ?? { body, position: WHOLE_BODY }];
}

function whileOpening({ how }: Ended, works: readonly Work[]): string {
  const names = works.map(({ model }) => `'${model}'`);
  if (names.length === 0) return `expected the scorer process to start, but it ${how}`;
  return `model ${names.join(', ')}: expected ONNX Runtime to open it, but its process ${how}; see what it printed, and export the model again`;
}

/** Resolves when the process has ended and what it wrote is read. */
async function endOf(child: ChildProcess, pipes: readonly Readable[]): Promise<Ended> {
  const exited = Promise.withResolvers<Ended>();
  if (child.exitCode !== null || child.signalCode !== null) exited.resolve(howOf(child.exitCode, child.signalCode));
  child.once('exit', (code, signal) => {
    exited.resolve(howOf(code, signal));
  });
  const drained = pipes.map((pipe) => new Promise((resolve) => pipe.once('close', resolve)));
  const end = await exited.promise;
  const overdue = Promise.withResolvers<void>();
  const timer = setTimeout(overdue.resolve, LAST_WORDS_MS);
  await Promise.race([Promise.all(drained), overdue.promise]);
  clearTimeout(timer);
  for (const pipe of pipes) pipe.destroy();
  return end;
}

function howOf(code: number | null, signal: NodeJS.Signals | null): Ended {
  return signal === null ? { how: `ended with code ${code}` } : { how: `was ended by ${signal}`, signal };
}

const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const SCORER_FILE = fileURLToPath(new URL(`./scorerProcess.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));
const SHELL = '/bin/sh';
/** A process cannot limit its own memory from Node: a shell does, and becomes Node. Some have no such limit. */
const LIMITED = 'ulimit -d "$0" 2>/dev/null; exec "$@"';
/** What is reserved and never touched counts as data: about 0.6 GiB for each thread with V8, of which each model has one. */
const RESERVED_BYTES = 32 * 1024 ** 3;

const NO_SHELL = `${SHELL}: expected a shell that limits the memory of the scorer, got none; a run that takes all memory may end others too`;

/** @throws Error when the system cannot start a process */
function spawnScorer(maxBytes: number): ChildProcess {
  // Of a script on the command line, and of a debugger, the scorer must not be another one.
  const flags = process.execArgv.filter(
    (flag, index, all) => !OF_THIS_PROCESS.test(flag) && !SCRIPT.test(all[index - 1] ?? ''),
  );
  const node = [process.execPath, ...flags, SCORER_FILE];
  const limit = String(Math.round((maxBytes + RESERVED_BYTES) / 1024));
  const [command = '', ...args] = Number.isFinite(maxBytes) ? [SHELL, '-c', LIMITED, limit, ...node] : node;
  const child = spawn(command, args, {
    // What a transform prints must not stand among results.
    stdio: ['ignore', STDERR, 'inherit', 'overlapped', 'overlapped'],
    env: { ...process.env, [RUNTIME_TELEMETRY_OFF]: '1' },
  });
  child.on('error', () => {});
  // What goes wrong with a pipe is told by the end of the process, or by its pid if it was never started.
  for (const pipe of child.stdio ?? []) pipe?.on('error', () => {});
  if (child.pid === undefined) throw new Error('expected the system to start a process for the models, it did not');
  return child;
}

const STDERR = 2;
/** Flags of Node that have a script behind them, and those that make sense for one process alone. */
const SCRIPT = /^(-e|--eval|-p|--print|-pe)$/;
const OF_THIS_PROCESS =
  /^(-e|--eval(=.*)?|-p|--print|-pe|-i|--interactive|--input-type.*|--inspect.*|--watch.*|--test.*)$/;

/** Whether the system has stopped the process, as by SIGSTOP or a freezer. */
function isStopped(pid: number | undefined): boolean {
  const [state] = statOf(pid, 'stat')?.split(') ').at(-1) ?? '';
  return state === 'T' || state === 't';
}

const PAGE_BYTES = 4096;

function heldBytes(pid: number | undefined): number {
  return Number(statOf(pid, 'statm')?.split(' ')[1] ?? 0) * PAGE_BYTES;
}

/** @see https://man7.org/linux/man-pages/man5/proc.5.html */
function statOf(pid: number | undefined, file: 'stat' | 'statm'): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return undefined;
  }
}
