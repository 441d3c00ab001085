import type { ChildProcess } from 'node:child_process';
import { type Failure, isFailure } from '../core/failure.ts';
import type { PayloadReader } from '../core/record.ts';
import type { KeyedBody, Reply } from '../core/replies.ts';
import type { CallOptions } from '../core/score.ts';
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
import {
  type Ended,
  endOf,
  heldBytes,
  isStopped,
  NO_SHELL,
  type ScorerSystemProcess,
  spawnScorer,
} from './scorerSystem.ts';

export interface ChildCall {
  readonly bodies: readonly KeyedBody[];
  readonly remainingMs: number;
  readonly isAlone: boolean;
  readonly defaults: CallOptions['defaults'];
  /** Milliseconds that a run, or a transform that blocks, may take which is expected to take `expectedMs`. */
  readonly limitMs: (expectedMs: number) => number;
  /** Takes replies. Resolves once there is memory for more. */
  readonly take: (replies: readonly Reply[]) => Promise<void>;
  readonly tell: (told: Told) => void;
  readonly readPayload: PayloadReader['read'];
  readonly signal: AbortSignal;
}

/** In place of a position: all requests of a body, none of which was at work by itself. */
export const WHOLE_BODY = -1;

/** How a process was lost, and what of a call is to blame. */
export interface Loss extends Ended {
  /** Requests of the call that were being run, or in a transform; `all`: nobody knows. */
  readonly blamed: readonly { readonly body: number; readonly position: number }[] | 'all';
  /** The model that was at work, if one was. */
  readonly model: string | undefined;
  /** True if the model was being opened. */
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

/** Work that took too long; undefined: an aborted call that does not end. */
interface Hung {
  readonly work: Work | undefined;
  readonly ms: number;
}

/** Characters of bodies that are sent at a time: what is copied then is still in the cache of the processor. */
const FRAME_CHARACTERS = 128 * 1024;
/** Written characters that the scorer is told of at a time. It may have four times as many that are not written. */
const CHARACTERS_TO_TELL = 1024 * 1024;
/** Time between two looks at how long work takes. */
const LOOK_MS = 100;
/** If two looks are further apart, this process stood still in between: that time is nobody's. */
const LONGEST_LOOK_MS = 3_000;
/** Time within which an aborted call must end if nothing of it is at work. */
const ABORTED_MS = 5_000;
/** Longest time to open the models of a process. */
const MAX_OPENING_MS = 900_000;

/**
 * Starts a process, which loads its code while it waits for what to open.
 *
 * @param maxBytes that it may allocate: a run that wants more fails, and takes neither scorer nor host
 * @returns what has it open models
 * @throws Error if the system cannot start a process
 */
export function startChild(maxBytes: number): (options: ChildOptions) => ScorerChild {
  const system = spawnScorer(maxBytes);
  holdHost(system, false);
  return (options) => {
    if (!system.isLimited) options.warn(NO_SHELL);
    return new ScorerChild(system, options);
  };
}

/** @param holds true if the host may not end by itself now: its scorer has something to do */
function holdHost({ child, frames, blames }: ScorerSystemProcess, holds: boolean): void {
  for (const handle of [child, frames, blames]) {
    if (holds) handle.ref();
    else handle.unref();
  }
}

/** One scorer process, from its start to its end. It takes calls once it has opened its models. */
export class ScorerChild {
  readonly #opened = Promise.withResolvers<OpenedModels>();
  readonly #ended = Promise.withResolvers<Ended>();
  /** Rejects with why the models cannot be opened, or how the process was lost meanwhile. */
  readonly opened = this.#opened.promise;
  /** Resolves when the process has ended, with how. */
  readonly ended = this.#ended.promise;
  readonly #system: ScorerSystemProcess;
  readonly #child: ChildProcess;
  readonly #options: ChildOptions;
  readonly #calls = new Map<number, ActiveCall>();
  readonly #works = new Map<number, Work>();
  /** Works whose end was told before their beginning, which comes another way. */
  readonly #endedFirst = new Set<number>();
  readonly #descriptions = new Map<number, PromiseWithResolvers<DescribedModel | Failure>>();
  /** Payloads that the scorer is to make room for. */
  readonly #rooms = new Map<number, () => void>();
  #numbers = 0;
  #isEnded = false;
  /** Why the host has ended the process. */
  #hung: Hung | undefined;
  #lookedAt = performance.now();
  #looking: NodeJS.Timeout | undefined;

  constructor(system: ScorerSystemProcess, options: ChildOptions) {
    holdHost(system, true);
    this.#system = system;
    this.#child = system.child;
    this.#options = options;
    system.frames.on(
      'data',
      createFrameReader<FromScorer>((frame, texts) => this.#take(frame, texts)),
    );
    system.blames.on(
      'data',
      createFrameReader<Blame>((frame) => this.#takeBlame(frame)),
    );
    const overdue = setTimeout(() => this.#kill(), MAX_OPENING_MS).unref();
    this.opened.then(
      () => {
        clearTimeout(overdue);
        this.#settled();
      },
      () => this.#kill(),
    );
    void endOf(system).then((end) => {
      clearTimeout(overdue);
      this.#end(end);
    });
    const clockStart = Number(process.hrtime.bigint()) / 1e6 - performance.now();
    this.#tell({ is: 'open', opening: { ...options.opening, clockStart } });
  }

  hasEnded(): boolean {
    return this.#isEnded;
  }

  /** Bytes that it holds; 0 if the system does not say. */
  heldBytes(): number {
    return heldBytes(this.#child.pid);
  }

  /** Has requests of a model handed back. */
  leaveAlone(broken: BrokenModel): void {
    this.#tell({ is: 'broken', broken });
  }

  /** Ends the process, whatever it is doing. */
  async end(): Promise<void> {
    holdHost(this.#system, true);
    this.#kill();
    await this.ended;
  }

  /** Resolves with what is known of a model, which is loaded if it is not yet. @throws Error if the process ends first */
  describe(name: string | undefined, version: string | undefined): Promise<DescribedModel | Failure> {
    if (this.#isEnded) return Promise.reject(new Error('the scorer has ended'));
    const ask = this.#numbers++;
    const answer = Promise.withResolvers<DescribedModel | Failure>();
    this.#descriptions.set(ask, answer);
    this.#began();
    this.#tell({ is: 'describe', ask, name, version });
    return answer.promise;
  }

  /**
   * Scores bodies.
   *
   * @returns how the process was lost; undefined if the call has ended
   */
  score(call: ChildCall): { readonly lost: Promise<Loss | undefined>; abort(): void } {
    const number = this.#numbers++;
    const lost = Promise.withResolvers<Loss | undefined>();
    const active: ActiveCall = { ...call, lost, written: 0, body: undefined, abortedMs: undefined };
    if (this.#isEnded) lost.resolve({ how: 'had ended', blamed: [], model: undefined, isOpening: false });
    else {
      this.#calls.set(number, active);
      this.#began();
    }
    this.#send(number, call);
    return {
      lost: lost.promise,
      abort: () => {
        active.abortedMs ??= 0;
        this.#tell({ is: 'abort', call: number });
      },
    };
  }

  #send(number: number, { bodies, remainingMs, isAlone, defaults }: ChildCall): void {
    const refusals = bodies.flatMap(({ refused = [] }, body) =>
      Array.from(refused, ([position, failure]) => ({ body, position, failure })),
    );
    let texts: string[] = [];
    let characters = 0;
    for (const { key, body } of bodies) {
      texts.push(key, body);
      characters += body.length;
      if (characters < FRAME_CHARACTERS) continue;
      this.#tell({ is: 'bodies', call: number }, texts);
      texts = [];
      characters = 0;
    }
    this.#tell({ is: 'score', call: number, remainingMs, isAlone, defaults, refusals }, texts);
  }

  #tell(frame: ToScorer, texts?: readonly string[]): void {
    if (!this.#isEnded) this.#system.frames.write(encodeFrame(frame, texts));
  }

  #kill(): void {
    this.#child.kill('SIGKILL');
  }

  #began(): void {
    holdHost(this.#system, true);
    if (this.#looking !== undefined) return;
    this.#lookedAt = performance.now();
    this.#looking = setInterval(() => this.#look(), LOOK_MS).unref();
  }

  #settled(): void {
    if (this.#calls.size > 0 || this.#descriptions.size > 0) return;
    holdHost(this.#system, false);
    clearInterval(this.#looking);
    this.#looking = undefined;
  }

  /** Ends the process if something takes too long. Time in which host or scorer stood still does not count. */
  #look(): void {
    const now = performance.now();
    const passedMs = now - this.#lookedAt > LONGEST_LOOK_MS ? LOOK_MS : now - this.#lookedAt;
    this.#lookedAt = now;
    const isOld =
      [...this.#works.values()].some(({ ageMs }) => ageMs > LOOK_MS) ||
      [...this.#calls.values()].some(({ abortedMs }) => abortedMs);
    if (this.#hung !== undefined || (isOld && isStopped(this.#child.pid))) return;
    this.#hung = this.#ageWorks(passedMs) ?? this.#ageAborted(passedMs);
    if (this.#hung === undefined) return;
    const kill = (): void => this.#kill();
    const { onHang } = this.#options;
    if (onHang === undefined) kill();
    else onHang().then(kill, kill);
  }

  #ageWorks(passedMs: number): Hung | undefined {
    for (const work of this.#works.values()) {
      work.ageMs += passedMs;
      if (work.call !== undefined && work.ageMs > work.call.limitMs(work.expectedMs)) return { work, ms: work.ageMs };
    }
    return undefined;
  }

  #ageAborted(passedMs: number): Hung | undefined {
    const atWork = new Set(Array.from(this.#works.values(), ({ call }) => call));
    for (const call of this.#calls.values()) {
      if (call.abortedMs === undefined || atWork.has(call)) continue;
      call.abortedMs += passedMs;
      if (call.abortedMs > ABORTED_MS) return { work: undefined, ms: 0 };
    }
    return undefined;
  }

  #take(frame: FromScorer, texts: readonly string[]): void {
    const { warn, inform, assigned, loaded } = this.#options;
    switch (frame.is) {
      case 'opened':
        this.#opened.resolve(frame.opened);
        break;
      case 'refused':
        this.#opened.reject(new Error(frame.error));
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
      case 'described':
        this.#takeDescription(frame);
        break;
      case 'ended':
        if (!this.#works.delete(frame.work)) this.#endedFirst.add(frame.work);
        break;
      case 'replies':
        this.#takeReplies(frame, texts);
        break;
      case 'done':
        this.#takeDone(frame);
        break;
      case 'read':
        void this.#read(frame);
        break;
      case 'room':
        this.#rooms.get(frame.ask)?.();
        break;
      case 'alive':
        for (const work of this.#works.values()) if (!work.isRun) work.ageMs = 0;
    }
  }

  #takeDescription({ ask, model }: Extract<FromScorer, { is: 'described' }>): void {
    this.#descriptions.get(ask)?.resolve('failed' in model ? revived(model) : model);
    this.#descriptions.delete(ask);
    this.#settled();
  }

  #takeReplies(frame: Extract<FromScorer, { is: 'replies' }>, texts: readonly string[]): void {
    const call = this.#calls.get(frame.call);
    if (call === undefined) return;
    for (const told of frame.told) call.tell(told);
    const characters = texts.reduce((sum, { length }) => sum + length, 0);
    void call.take(repliesOf(frame.replies, texts)).then(() => {
      call.written += characters;
      if (call.written < CHARACTERS_TO_TELL) return;
      this.#tell({ is: 'written', call: frame.call, characters: call.written });
      call.written = 0;
    });
  }

  #takeDone({ call: number, told }: Extract<FromScorer, { is: 'done' }>): void {
    const call = this.#calls.get(number);
    if (call === undefined) return;
    for (const one of told) call.tell(one);
    this.#calls.delete(number);
    call.lost.resolve(undefined);
    this.#settled();
  }

  async #read({ ask, call: number, pointer }: Extract<FromScorer, { is: 'read' }>): Promise<void> {
    const call = this.#calls.get(number);
    if (call === undefined) return;
    const admit = async (bytes: number): Promise<void> => {
      const room = Promise.withResolvers<void>();
      this.#rooms.set(ask, room.resolve);
      this.#tell({ is: 'size', ask, bytes });
      await room.promise;
    };
    const text = await call.readPayload(pointer, { admit, signal: call.signal });
    this.#rooms.delete(ask);
    if (isFailure(text)) this.#tell({ is: 'payload', ask, failure: text });
    else this.#tell({ is: 'payload', ask, failure: undefined }, [text]);
  }

  #takeBlame(frame: Blame): void {
    switch (frame.is) {
      case 'ends':
        this.#works.delete(frame.work);
        break;
      case 'body': {
        const call = this.#calls.get(frame.call);
        if (call !== undefined) call.body = frame.body;
        break;
      }
      case 'opens': {
        const about = { call: undefined, isRun: true, expectedMs: 0, places: new Int32Array() };
        this.#works.set(frame.work, { ...about, isOpening: true, model: frame.model, ageMs: 0 });
        break;
      }
      case 'begins': {
        const { work, model, isRun, expectedMs, places } = frame;
        if (this.#endedFirst.delete(work)) break;
        const call = this.#calls.get(frame.call);
        this.#works.set(work, { model, call, isOpening: false, isRun, expectedMs, places, ageMs: 0 });
      }
    }
  }

  #end(end: Ended): void {
    const works = [...this.#works.values()];
    this.#isEnded = true;
    clearInterval(this.#looking);
    this.#opened.reject(new Error(whileOpening(end, works)));
    for (const one of this.#descriptions.values()) one.reject(new Error(`the scorer ${end.how}`));
    for (const call of this.#calls.values()) call.lost.resolve(lossOf(call, end, works, this.#hung));
    this.#calls.clear();
    this.#ended.resolve(end);
  }
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
function lossOf(call: ActiveCall, end: Ended, works: readonly Work[], hung: Hung | undefined): Loss {
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
