import type { ChildProcess } from 'node:child_process';
import type { Failure } from '../core/failure.ts';
import { type Body, bodySize } from '../core/microBatch.ts';
import type { PayloadReader } from '../core/record.ts';
import { answerSize, isHandedBack, type KeyedBody, type Reply } from '../core/replies.ts';
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
  revive,
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
  /** Returns the time limit of a run or a blocking transform that is expected to take `expectedMs`. */
  readonly limitMs: (expectedMs: number) => number;
  /** Takes replies. Resolves when there is memory for more. */
  readonly take: (replies: readonly Reply[]) => Promise<void>;
  readonly tell: (told: Told) => void;
  readonly readPayload: PayloadReader['read'];
  readonly signal: AbortSignal;
}

/** Position for a whole body, if none of its requests was running. */
export const WHOLE_BODY = -1;

/** Loss of a process, and the requests of a call to blame. */
export interface Loss extends Ended {
  /** Requests of the call in a run or a transform, or `all` if unknown. */
  readonly blamed: readonly { readonly body: number; readonly position: number }[] | 'all';
  readonly model: string | undefined;
  readonly isOpening: boolean;
  /** Duration of the work for which the host ended the process. */
  readonly hungMs?: number | undefined;
}

export interface ChildOptions {
  readonly opening: Omit<Opening, 'clockStart'>;
  readonly warn: (message: string) => void;
  readonly inform?: ((message: string) => void) | undefined;
  readonly assigned?: ((assignment: Assignment) => void) | undefined;
  readonly loaded?: ((probes: number) => void) | undefined;
  /** Called if the process hangs. The process is killed when this resolves. @default immediately */
  readonly onHang?: (() => Promise<void>) | undefined;
}

interface ActiveCall extends ChildCall {
  readonly lost: PromiseWithResolvers<Loss | undefined>;
  /** Size of written answers that the scorer has not been told about. */
  written: number;
  body: number | undefined;
  /** Milliseconds since the call was aborted. Undefined if it was not. */
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

/** Work that took too long. `work` is undefined for an aborted call that does not end. */
interface Hung {
  readonly work: Work | undefined;
  readonly ms: number;
}

/** Size of bodies to send at a time, so that copied bytes are still in the processor's cache. */
const FRAME_SIZE = 128 * 1024;
/** Size of written answers to report at a time. The scorer may have four times as many unwritten ones. */
const SIZE_TO_TELL = 1024 * 1024;
/** Interval of the checks for hung work. */
const LOOK_MS = 100;
/** If two checks are further apart, this process was stopped in between, and the time does not count. */
const LONGEST_LOOK_MS = 3_000;
/** Time for an aborted call to end if it has no work in progress. */
const ABORTED_MS = 5_000;
/** Maximum time to open the models of a process. */
const MAX_OPENING_MS = 900_000;

/** Process that loads its code while it waits for the models to open. */
export interface StartedChild {
  open(options: ChildOptions): ScorerChild;
  /** Ends it without opening models. */
  end(): void;
}

/**
 * Starts a process.
 *
 * @param maxBytes memory that it may allocate: a run that needs more fails, without harm to scorer or host
 * @throws Error if the system cannot start a process
 */
export function startChild(maxBytes: number): StartedChild {
  const system = spawnScorer(maxBytes);
  holdHost(system, false);
  return {
    open(options) {
      if (!system.isLimited) options.warn(NO_SHELL);
      return new ScorerChild(system, options);
    },
    end: () => void system.child.kill('SIGKILL'),
  };
}

/** @param holds true to keep the host alive while its scorer has work */
function holdHost({ child, frames, blames }: ScorerSystemProcess, holds: boolean): void {
  for (const handle of [child, frames, blames]) {
    if (holds) handle.ref();
    else handle.unref();
  }
}

/** One scorer process, from its start to its end. It takes calls when its models are open. */
export class ScorerChild {
  readonly #opened = Promise.withResolvers<OpenedModels>();
  readonly #ended = Promise.withResolvers<Ended>();
  /** Rejects if the models cannot be opened or the process was lost meanwhile. */
  readonly opened = this.#opened.promise;
  /** Resolves when the process has ended. */
  readonly ended = this.#ended.promise;
  readonly #system: ScorerSystemProcess;
  readonly #child: ChildProcess;
  readonly #options: ChildOptions;
  readonly #calls = new Map<number, ActiveCall>();
  readonly #works = new Map<number, Work>();
  /** Work whose end was reported before its beginning, which comes by another pipe. */
  readonly #endedFirst = new Set<number>();
  readonly #descriptions = new Map<number, PromiseWithResolvers<DescribedModel | Failure>>();
  /** Payloads that wait for room in the scorer. */
  readonly #rooms = new Map<number, () => void>();
  #numbers = 0;
  #isEnding = false;
  #isEnded = false;
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
      createFrameReader<FromScorer>((frame) => this.#take(frame)),
    );
    system.blames.on(
      'data',
      createFrameReader<Blame>((frame) => this.#takeBlame(frame)),
    );
    const overdue = setTimeout(() => this.#kill(), MAX_OPENING_MS).unref();
    this.opened.then(
      () => {
        clearTimeout(overdue);
        this.#releaseIfIdle();
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

  isBusy(): boolean {
    return this.#calls.size > 0;
  }

  /** Returns the bytes that it holds, or 0 if unknown. */
  heldBytes(): number {
    return heldBytes(this.#child.pid);
  }

  /** Hands back requests of a model from now on. */
  leaveAlone(broken: BrokenModel): void {
    this.#tell({ is: 'broken', broken });
  }

  async end(): Promise<void> {
    this.#isEnding = true;
    holdHost(this.#system, true);
    this.#kill();
    await this.ended;
  }

  /** Describes a model, and loads it if necessary. @throws Error if the process ends first */
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
   * @returns the loss of the process, or undefined if the call has ended
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
    let some: Body[] = [];
    let size = 0;
    for (const { key, body } of bodies) {
      some.push(key, body);
      size += bodySize(body);
      if (size < FRAME_SIZE) continue;
      this.#tell({ is: 'bodies', call: number, bodies: some });
      some = [];
      size = 0;
    }
    this.#tell({ is: 'score', call: number, bodies: some, remainingMs, isAlone, defaults, refusals });
  }

  #tell(frame: ToScorer): void {
    if (!this.#isEnded) this.#system.frames.write(encodeFrame(frame));
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

  #releaseIfIdle(): void {
    // A call that ends now must not let the host exit before the process has.
    if (this.#isEnding || this.#calls.size > 0 || this.#descriptions.size > 0) return;
    holdHost(this.#system, false);
    clearInterval(this.#looking);
    this.#looking = undefined;
  }

  /** Ends the process if something takes too long. Time in which host or scorer were stopped does not count. */
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

  #take(frame: FromScorer): void {
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
        for (const work of frame.works) if (!this.#works.delete(work)) this.#endedFirst.add(work);
        break;
      case 'replies':
        this.#takeReplies(frame);
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
    this.#descriptions.get(ask)?.resolve('failed' in model ? revive(model) : model);
    this.#descriptions.delete(ask);
    this.#releaseIfIdle();
  }

  #takeReplies({ call: number, replies, told }: Extract<FromScorer, { is: 'replies' }>): void {
    const call = this.#calls.get(number);
    if (call === undefined) return;
    for (const one of told) call.tell(one);
    const given = repliesOf(replies);
    void call.take(given).then(() => {
      for (const reply of given) if (!isHandedBack(reply)) call.written += answerSize(reply);
      if (call.written < SIZE_TO_TELL) return;
      this.#tell({ is: 'written', call: number, size: call.written });
      call.written = 0;
    });
  }

  #takeDone({ call: number, told }: Extract<FromScorer, { is: 'done' }>): void {
    const call = this.#calls.get(number);
    if (call === undefined) return;
    for (const one of told) call.tell(one);
    this.#calls.delete(number);
    call.lost.resolve(undefined);
    this.#releaseIfIdle();
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
    const read = await call.readPayload(pointer, { admit, signal: call.signal });
    this.#rooms.delete(ask);
    this.#tell({ is: 'payload', ask, read });
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
        const { work, model, isRun, expectedMs, places, ended } = frame;
        for (const one of ended) this.#works.delete(one);
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

function repliesOf({ of, texts, notes, handedBack }: PlainReplies): Reply[] {
  const answers = texts.map((text, at): Reply => ({ of: of[at] as number, text, failures: [], requests: 1 }));
  for (const { at, failures, ...rest } of notes) {
    answers[at] = { ...rest, of: of[at] as number, text: texts[at] as string, failures: failures.map(revive) };
  }
  const back = handedBack.map((failure, index): Reply => {
    return { of: of[texts.length + index] as number, failure: revive(failure) };
  });
  return [...answers, ...back];
}

/** Returns the loss of a call. Only work in progress is to blame; if the host ended the process, only hung work. */
function lossOf(call: ActiveCall, end: Ended, works: readonly Work[], hung: Hung | undefined): Loss {
  const toBlame = hung?.work === undefined ? works : [hung.work];
  const mine = toBlame.filter((work) => work.call === call);
  const names = new Set((mine.length > 0 ? mine : toBlame).map(({ model }) => model));
  const places = mine.flatMap(({ places }) =>
    Array.from({ length: places.length / 2 }, (_, index) => ({
      body: places[2 * index] as number,
      position: places[2 * index + 1] as number,
    })),
  );
  // If the host ended the process, a model that was being opened is not the reason.
  const isOpening = hung === undefined && toBlame.length === 1 && toBlame[0]?.isOpening === true;
  const together = toBlame.length === 0 ? 'all' : places;
  return {
    ...end,
    // No request is to blame for a model that cannot be opened.
    blamed: call.body === undefined || isOpening ? together : blamedAlone(call.body, places),
    model: names.size === 1 ? [...names][0] : undefined,
    isOpening,
    ...(hung && { hungMs: hung.ms }),
  };
}

/** Blames the last request that began, or the whole body if none did. Requests run one after the other. */
function blamedAlone(body: number, places: readonly { readonly body: number; readonly position: number }[]) {
  return [places.findLast((place) => place.body === body) ?? { body, position: WHOLE_BODY }];
}

function whileOpening({ how }: Ended, works: readonly Work[]): string {
  const names = works.map(({ model }) => `'${model}'`);
  if (names.length === 0) return `expected the scorer process to start, but it ${how}`;
  return `model ${names.join(', ')}: expected ONNX Runtime to open it, but its process ${how}; see what it printed, and export the model again`;
}
