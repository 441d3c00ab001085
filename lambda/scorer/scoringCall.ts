import { AsyncLocalStorage } from 'node:async_hooks';
import { waitOrAbort } from '../core/concurrency.ts';
import { encodeError } from '../core/encode.ts';
import { type Failure, failure, PAYLOAD_BUCKET, tooLargeAlone } from '../core/failure.ts';
import type { Body } from '../core/microBatch.ts';
import type { Observer } from '../core/observer.ts';
import { GRACE_MS, type PayloadReader, type TimeLimit } from '../core/record.ts';
import { isHandedBack, type KeyedBody, type Reply } from '../core/replies.ts';
import { idInBody } from '../core/request.ts';
import type { CallOptions, ReplySink } from '../core/score.ts';
import type { Told } from './frames.ts';
import type { Lane, Turns } from './lanes.ts';
import { type Loss, type ScorerChild, WHOLE_BODY } from './scorerChild.ts';

/** State that the calls of a scorer share. */
export interface CallContext {
  /** Process that scores bodies together. */
  readonly shared: Lane;
  /** Process for requests that run alone. */
  readonly own: Lane;
  /** Turns on the shared process. */
  readonly sharedTurns: Turns;
  /** Turns on the process for requests that run alone. */
  readonly aloneTurns: Turns;
  /** Returns true if there is memory for two processes. */
  readonly fitsTwice: () => boolean;
  /** Keys of slow bodies, which run alone when they come again. */
  readonly slow: { has(key: string): boolean; add(key: string): void };
  readonly limits: RunLimits;
  readonly deadlineMarginMs: number;
  readonly payloads: PayloadReader | undefined;
  readonly note: (child: ScorerChild, loss: Loss) => void;
  /** Called for each request of a model that is answered with an error because it ended a process alone. */
  readonly convicted: (model: string) => void;
  readonly observe: (told: Told, observer: Observer) => void;
}

interface RunLimits {
  /** Share for a run of several requests. */
  readonly together: number;
  /** Share for the first run of a request alone. */
  readonly first: number;
}

/** Multiple of the expected time after which a run counts as hung, except in the last, longest try. */
const HANG_FACTOR = 4;
const MIN_LIMIT_MS = 250;
/** Share of the available time after which a request that runs alone is answered with an error. */
const WHOLE_SHARE = 0.85;
/** Time to end a process and read its last output: a share of the time of a call, and a maximum. */
const END_SHARE = 0.05;
const MAX_END_MS = 1_000;
/** Minimum share of a call's time to require of a slow body, however long opening the models takes. */
const LEAST_SHARE = 0.5;

interface Suspect {
  /** True if the body is known to need more time than others. */
  readonly isSlow: boolean;
  /** Failures of requests in a packed body, by position. */
  readonly refused: Map<number, Failure>;
  crashes: number;
}

function newSuspect(isSlow = false): Suspect {
  return { isSlow, refused: new Map(), crashes: 0 };
}

/** Returns the time limit of a run that is expected to take `expectedMs`. */
type Limit = (expectedMs: number) => number;

interface AloneOptions {
  /** Returns the limit for runs of the next process, which took `openingMs` of the call's time to open its models. */
  readonly limit: (openingMs: number) => Limit;
  readonly onHung: (index: number, position: number, loss: Loss) => Promise<void>;
}

/** One call of `score`: bodies without a reply, and those that may have caused the loss of a process. */
export class ScoringCall {
  readonly #context: CallContext;
  readonly #bodies: readonly KeyedBody[];
  readonly #time: TimeLimit;
  readonly #sink: ReplySink;
  readonly #options: CallOptions;
  readonly #inCaller = AsyncLocalStorage.snapshot();
  readonly #pending: Map<number, KeyedBody>;
  readonly #suspects = new Map<number, Suspect>();
  readonly #wholeMs: number;

  constructor(
    context: CallContext,
    bodies: readonly KeyedBody[],
    time: TimeLimit,
    sink: ReplySink,
    options: CallOptions,
  ) {
    this.#context = context;
    this.#bodies = bodies;
    this.#time = time;
    this.#sink = sink;
    this.#options = options;
    this.#pending = new Map(bodies.entries());
    this.#wholeMs = Math.max(1, time.remainingMs() - context.deadlineMarginMs);
  }

  async run(): Promise<void> {
    const { slow, aloneTurns } = this.#context;
    for (const [index, { key }] of this.#pending) if (slow.has(key)) this.#suspects.set(index, newSuspect(true));
    await this.#scoreTogether();
    if (this.#suspects.size === 0 || this.#time.signal.aborted) return;
    await aloneTurns.have(this.#time, () => this.#scoreSuspects());
  }

  /** Scores all bodies except suspects. After a loss, it goes on in the next process. */
  async #scoreTogether(): Promise<void> {
    const { shared, sharedTurns, limits } = this.#context;
    const limitMs = this.#limitOf(limits.together);
    do {
      const some = [...this.#pending].filter(([index]) => !this.#suspects.has(index));
      if (some.length === 0) return;
      const loss = await sharedTurns.share(async () => {
        const child = await shared.open(this.#time.signal);
        return child && this.#runIn(child, some, { isAlone: false, limitMs, take: (replies) => this.#take(replies) });
      });
      if (loss === undefined) return;
      const blamed = loss.blamed === 'all' ? some.map(([index]) => index) : loss.blamed.map(({ body }) => body);
      for (const index of blamed) if (this.#pending.has(index)) this.#suspects.set(index, newSuspect());
    } while (!this.#time.signal.aborted);
  }

  /** Passes replies on, except those of bodies that did not fit into memory together: they run alone. */
  #take(replies: readonly Reply[]): Promise<void> {
    for (const reply of replies) if (isTooLarge(reply)) this.#suspects.set(reply.of, newSuspect());
    return this.#pass(replies.filter((reply) => !isTooLarge(reply)));
  }

  async #pass(replies: readonly Reply[]): Promise<void> {
    const fresh = replies.filter(({ of }) => this.#pending.delete(of));
    if (fresh.length > 0) await this.#inCaller(this.#sink, fresh);
  }

  /**
   * Scores suspects one at a time: first briefly, so that a hung one leaves time for others, then with all the time.
   */
  async #scoreSuspects(): Promise<void> {
    const { own, shared, sharedTurns, fitsTwice } = this.#context;
    const fits = fitsTwice();
    const work = async (): Promise<void> => {
      const lane = fits ? own : shared;
      if (this.#suspects.size > 1) await this.#tryBriefly(lane);
      for (const index of this.#suspects.keys()) {
        if (this.#pending.has(index) && !this.#time.signal.aborted) await this.#tryAtLength(lane, index);
      }
    };
    await (fits ? work() : sharedTurns.have(this.#time, work));
  }

  #tryBriefly(lane: Lane): Promise<void> {
    const { limits, slow } = this.#context;
    const unknown = [...this.#suspects].filter(([, { isSlow }]) => !isSlow).map(([index]) => index);
    const limitMs = this.#limitOf(limits.first);
    return this.#runAlone(lane, unknown, {
      limit: () => limitMs,
      onHung: async (index) => slow.add(this.#bodyOf(index).key),
    });
  }

  #tryAtLength(lane: Lane, index: number): Promise<void> {
    const { deadlineMarginMs, slow } = this.#context;
    let wholeMs = this.#wholeMs;
    return this.#runAlone(lane, [index], {
      limit: (openingMs) => {
        // A call reserves its time for a body that is known to be slow.
        if (this.#suspects.get(index)?.isSlow)
          wholeMs = Math.max(LEAST_SHARE * this.#wholeMs, this.#wholeMs - openingMs);
        const limitMs = this.#time.remainingMs() - deadlineMarginMs - Math.min(MAX_END_MS, END_SHARE * this.#wholeMs);
        return () => limitMs;
      },
      onHung: async (_, position, loss) => {
        slow.add(this.#bodyOf(index).key);
        if (Number(loss.hungMs) >= WHOLE_SHARE * wholeMs) await this.#failRequest(index, position, loss);
        else await this.#pass([{ of: index, failure: TOO_SHORT }]);
      },
    });
  }

  /** Runs bodies one after the other, and continues after each that ends its process. */
  async #runAlone(lane: Lane, indexes: readonly number[], { limit, onHung }: AloneOptions): Promise<void> {
    const left = new Set(indexes);
    while (!this.#time.signal.aborted) {
      const some = [...left]
        .filter((index) => this.#pending.has(index))
        .map((index) => [index, this.#bodyOf(index)] as const);
      const askedMs = this.#time.remainingMs();
      const child = some.length === 0 ? undefined : await lane.open(this.#time.signal);
      if (child === undefined) return;
      this.#time.renew?.();
      const limitMs = limit(Math.max(0, askedMs - this.#time.remainingMs()));
      const loss = await this.#runIn(child, some, { isAlone: true, limitMs, take: (replies) => this.#pass(replies) });
      if (loss === undefined) return;
      const [blamed] = loss.blamed === 'all' ? [] : loss.blamed;
      // A process that ended for no request's reason is replaced, after a pause of its lane, as long as there is time.
      if (blamed === undefined || !this.#pending.has(blamed.body)) continue;
      const { body: index, position } = blamed;
      if (loss.hungMs !== undefined) {
        left.delete(index);
        await onHung(index, position, loss);
      } else await this.#recordCrash(index, position, loss);
    }
  }

  /** Counts a crash. A first SIGKILL fails nothing: other processes may have taken the memory. */
  async #recordCrash(index: number, position: number, loss: Loss): Promise<void> {
    const suspect = this.#suspects.get(index) as Suspect;
    suspect.crashes += 1;
    if (loss.signal !== 'SIGKILL' || suspect.crashes > 1) await this.#failRequest(index, position, loss);
  }

  /** Answers a request with an error. A packed body is scored again without the request. */
  async #failRequest(index: number, position: number, loss: Loss): Promise<void> {
    const suspect = this.#suspects.get(index) as Suspect;
    const failed = failureOf(loss);
    suspect.crashes = 0;
    if (loss.model !== undefined) this.#context.convicted(loss.model);
    if (position === WHOLE_BODY || !isPackedBody(this.#bodyOf(index).body)) {
      await this.#pass([this.#errorReply(index, failed)]);
    } else suspect.refused.set(position, failed);
  }

  #bodyOf(index: number): KeyedBody {
    const body = this.#bodies[index] as KeyedBody;
    const refused = this.#suspects.get(index)?.refused;
    return refused === undefined || refused.size === 0 ? body : { ...body, refused };
  }

  #errorReply(of: number, failed: Failure): Reply {
    const { key, body } = this.#bodies[of] as KeyedBody;
    return { of, text: encodeError(key, idInBody(body), failed), failures: [failed], requests: 1 };
  }

  #limitOf(share: number): Limit {
    return (expectedMs) => Math.max(MIN_LIMIT_MS, share * this.#wholeMs, HANG_FACTOR * expectedMs);
  }

  /**
   * Scores some bodies in a process. Replies and the loss have the index of a body among all bodies.
   *
   * @returns the loss, or undefined if the call or its time has ended
   */
  async #runIn(
    child: ScorerChild,
    some: readonly (readonly [index: number, body: KeyedBody])[],
    { isAlone, limitMs, take }: { readonly isAlone: boolean; readonly limitMs: Limit; readonly take: ReplySink },
  ): Promise<Loss | undefined> {
    const { payloads, observe, note } = this.#context;
    const { signal } = this.#time;
    const indexOf = (at: number): number => some[at]?.[0] as number;
    const taking = new Set<Promise<void>>();
    const call = child.score({
      bodies: some.map(([, body]) => body),
      remainingMs: this.#time.remainingMs(),
      isAlone,
      defaults: this.#options.defaults,
      limitMs,
      tell: (told) => {
        const ofCall = told.is === 'microBatch' ? { ...told, bodies: told.bodies.map(indexOf) } : told;
        this.#inCaller(observe, ofCall, this.#options.observer);
      },
      signal,
      readPayload: (pointer, how) => payloads?.read(pointer, how) ?? Promise.resolve(NO_BUCKET),
      async take(replies) {
        const taken = take(replies.map((reply) => ({ ...reply, of: indexOf(reply.of) })));
        taking.add(taken);
        await taken;
        taking.delete(taken);
      },
    });
    const onAbort = (): void => call.abort();
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    let loss: Loss | undefined;
    const lost = call.lost.then((how) => {
      loss = how;
    });
    await waitOrAbort(lost, signal, GRACE_MS);
    signal.removeEventListener('abort', onAbort);
    await Promise.all(taking);
    if (loss === undefined) return undefined;
    note(child, loss);
    const { blamed } = loss;
    if (blamed === 'all') return loss;
    return { ...loss, blamed: blamed.map(({ body, position }) => ({ body: indexOf(body), position })) };
  }
}

function isTooLarge(reply: Reply): reply is Extract<Reply, { readonly failure: Failure }> {
  return isHandedBack(reply) && reply.failure.code === 'OUT_OF_MEMORY';
}

function isPackedBody(body: Body): boolean {
  return typeof body === 'string' && /^\s*\[/.test(body);
}

const NO_BUCKET = failure('PAYLOAD_UNAVAILABLE', 'expected a payload bucket to read from, got none', {
  of: PAYLOAD_BUCKET,
  kind: 'refused',
});

const CURE = 'do not send it again as it is: send fewer rows or other values, or fix the model';

function failureOf({ how, signal, hungMs, model }: Loss): Failure {
  const of = model === undefined ? '' : `model '${model}': `;
  if (hungMs !== undefined) {
    // Without the time it took: if the request is received twice, both answers are the same.
    const message = `${of}expected this request alone to end within the time of its host, it did not`;
    return failure('RUN_TIMED_OUT', `${message}; ${CURE}, or raise the timeout`);
  }
  if (signal === 'SIGKILL') return tooLargeAlone(`${of}its process ${how}, twice`);
  return failure('MODEL_CRASHED', `${of}expected an answer to this request, but alone its process ${how}; ${CURE}`);
}

const TOO_SHORT = failure(
  'DEADLINE',
  'expected the run of this request alone to end within the time that was left; it gets more time at its next receive',
);
