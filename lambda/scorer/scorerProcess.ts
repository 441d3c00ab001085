import '../onnx/firstThread.ts';
import { readdirSync, writeSync } from 'node:fs';
import module from 'node:module';
import { Socket } from 'node:net';
import { constants, setPriority } from 'node:os';
import { waitOrAbort } from '../core/concurrency.ts';
import { createCostEstimator } from '../core/cost.ts';
import { failure, isFailure, messageOf } from '../core/failure.ts';
import type { Body } from '../core/microBatch.ts';
import { describeModel, withDefaults } from '../core/model.ts';
import type { Observer, WorkUnderWay } from '../core/observer.ts';
import { type Planner, plan } from '../core/plan.ts';
import type { PayloadReader, PayloadReadOptions, TimeLimit } from '../core/record.ts';
import { type Answer, answerSize, isHandedBack, type KeyedBody, type Reply } from '../core/replies.ts';
import { createMemoryCeiling } from '../core/run.ts';
import { type ReplySink, type ScoreDependencies, score } from '../core/score.ts';
import { createBatchingWatch } from '../core/verify.ts';
import { type OnnxModelRepository, openModelAlone, openRepository } from '../onnx/repository.ts';
import { goFirstWhenMemoryEnds } from '../onnx/session.ts';
import {
  type Blame,
  type BrokenModel,
  createFrameReader,
  encodeFrame,
  type FromScorer,
  type Opening,
  revive,
  type Told,
  type ToScorer,
} from './frames.ts';

/*
 * Runs in the process that has the models: decodes bodies, runs them and encodes their answers. `scorerChild.ts` starts
 * it, feeds it and ends it. The host survives whatever a request does to this process.
 */

/** File descriptors from the host: frames in both directions, and reports before work begins. */
const FRAMES_FD = 3;
const BLAME_FD = 4;

// A terminal or a service manager signals a host and all its processes. The host ends this process when it is done.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
// The host logs the warning in its own format.
process.removeAllListeners('warning');
process.on('warning', ({ name, message }) => tell({ is: 'warning', name, message }));
goFirstWhenMemoryEnds();

const host = new Socket({ fd: FRAMES_FD, readable: true, writable: true });
host.on('end', end);
host.on('error', end);
host.on(
  'data',
  createFrameReader<ToScorer>((frame) => take(frame)),
);

/** Kills this process after the host has ended, including what its threads are doing. */
function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

/** Sends a frame. All frames of one turn of the event loop are one write, which wakes the host once. */
function tell(frame: FromScorer): void {
  if (host.writableCorked === 0) {
    host.cork();
    process.nextTick(() => host.uncork());
  }
  host.write(encodeFrame(frame));
}

/** Writes synchronously: returns when the kernel has the frame. */
function blame(frame: Blame): void {
  const bytes = encodeFrame(frame);
  for (let at = 0; at < bytes.length; ) at += writeSync(BLAME_FD, bytes, at);
}

let works = 0;

interface Scoring {
  readonly repository: OnnxModelRepository;
  readonly deps: Omit<ScoreDependencies, 'models' | 'payloads' | 'observer' | 'plan'>;
  readonly hasPayloads: boolean;
  readonly hasStages: boolean;
}

/** Set before the host learns that the models are open. It asks for nothing earlier. */
let scoring: Scoring | undefined;
const calls = new Map<number, Call>();
/** Bodies of calls that have more to come. */
const firstBodies = new Map<number, readonly (readonly Body[])[]>();
/** Callbacks for answers of the host, by the number of the question. */
const asked = new Map<number, (frame: ToScorer) => void>();
let asks = 0;

interface Call {
  abort(): void;
  written(size: number): void;
}

function take(frame: ToScorer): void {
  switch (frame.is) {
    case 'open':
      void open(frame.opening);
      break;
    case 'bodies':
      firstBodies.set(frame.call, [...(firstBodies.get(frame.call) ?? []), frame.bodies]);
      break;
    case 'score':
      void startCall(frame, [...(firstBodies.get(frame.call) ?? []), frame.bodies].flat());
      firstBodies.delete(frame.call);
      break;
    case 'abort':
      calls.get(frame.call)?.abort();
      break;
    case 'broken':
      setBroken(frame.broken);
      break;
    case 'written':
      calls.get(frame.call)?.written(frame.size);
      break;
    case 'describe':
      void describe(frame);
      break;
    default:
      asked.get(frame.ask)?.(frame);
      break;
  }
}

/** Times until which models are not used because they end processes, by name, as readings of `performance.now`. */
const brokenUntil = new Map<string, number>();

function setBroken({ model, forMs }: BrokenModel): void {
  brokenUntil.set(model, performance.now() + forMs);
}

function withoutBroken(repository: OnnxModelRepository): OnnxModelRepository {
  const find: OnnxModelRepository['find'] = (name = repository.defaultName, version) => {
    const isBroken = brokenUntil.size > 0 && (brokenUntil.get(name ?? '') ?? 0) > performance.now();
    if (!isBroken) return repository.find(name, version);
    const of = `model '${name}'`;
    const message = `${of}: expected it to score requests, but it ended its processes, one after the other`;
    return failure('MODEL_UNAVAILABLE', `${message}; see the log, and fix the model`, { of, kind: 'refused' });
  };
  return { ...repository, find };
}

async function open({ repository: from, load, limits, checkPercent, ...rest }: Opening): Promise<void> {
  const options = {
    ...load,
    warn: (message: string) => tell({ is: 'warn', message }),
    inform: (message: string) => tell({ is: 'inform', message }),
    assigned: ({ provider, devices }: { provider: string; devices: readonly string[] }) =>
      tell({ is: 'assigned', assignment: { provider, devices } }),
    loaded: ({ probes }: { probes: number }) => tell({ is: 'loaded', probes }),
    opens(model: string) {
      const work = works++;
      blame({ is: 'opens', work, model });
      return () => blame({ is: 'ends', work });
    },
  };
  rest.broken.forEach(setBroken);
  if (rest.isBackground) goBehindOthers();
  try {
    const repository = withoutBroken(
      await ('path' in from ? openModelAlone(from.path, options) : openRepository({ ...options, ...from })),
    );
    const batching = createBatchingWatch(checkPercent / 100);
    for (const { model, version } of rest.mismatches) {
      const found = await repository.find(model, version);
      if (!isFailure(found)) batching.stop(found);
    }
    const skewMs = Number(process.hrtime.bigint()) / 1e6 - performance.now() - rest.clockStart;
    scoring = {
      repository,
      deps: {
        limits,
        costs: createCostEstimator(),
        memory: createMemoryCeiling(),
        batching,
        repeats: new WeakMap(),
        now: () => performance.now() + skewMs,
      },
      hasPayloads: rest.hasPayloads,
      hasStages: rest.hasStages,
    };
    tell({ is: 'opened', opened: { models: repository.models, devices: repository.maxDevices } });
    // Node writes its compile cache when a process ends, but the scorer is killed.
    setImmediate(() => module.flushCompileCache?.());
  } catch (error) {
    tell({ is: 'refused', error: messageOf(error) });
  }
}

/**
 * Lowers the priority of all threads. Threads that they start inherit it, so those of ONNX Runtime do. Linux has a
 * priority for each thread, and other systems for the process.
 *
 * @see https://man7.org/linux/man-pages/man2/setpriority.2.html
 */
function goBehindOthers(): void {
  const threads = process.platform === 'linux' ? readdirSync('/proc/self/task') : [process.pid];
  for (const thread of threads) setPriority(Number(thread), constants.priority.PRIORITY_BELOW_NORMAL);
}

async function describe({ ask, name, version }: Extract<ToScorer, { is: 'describe' }>): Promise<void> {
  const { repository, deps } = scoring as Scoring;
  const model = await repository.find(name, version);
  const described = isFailure(model) ? model : { ...describeModel(model), batching: deps.batching.batchingOf(model) };
  tell({ is: 'described', ask, model: described });
}

/** Maximum size of replies that the host has not written yet. Beyond it no further runs start. */
const MAX_UNWRITTEN = 4 * 1024 * 1024;

async function startCall(frame: Extract<ToScorer, { is: 'score' }>, keysAndBodies: readonly Body[]): Promise<void> {
  const { call, remainingMs, isAlone, defaults, refusals } = frame;
  const { repository, deps, hasPayloads, hasStages } = scoring as Scoring;
  const over = new AbortController();
  const endsAt = deps.now() + remainingMs;
  const time: TimeLimit = { remainingMs: () => endsAt - deps.now(), signal: over.signal };
  let unwritten = 0;
  let relief = Promise.withResolvers<void>();
  calls.set(call, {
    abort: () => over.abort(),
    written(size) {
      unwritten -= size;
      relief.resolve();
      relief = Promise.withResolvers();
    },
  });
  let told: Told[] = [];
  const takeTold = (): readonly Told[] => {
    const all = told;
    told = [];
    return all;
  };
  const observer = createObserver(call, isAlone, (one) => told.push(one), hasStages);
  const sink: ReplySink = async (replies) => {
    unwritten += tellReplies(call, replies, takeTold());
    // Several micro-batches may wait for the same relief.
    while (unwritten > MAX_UNWRITTEN && !over.signal.aborted) await waitOrAbort(relief.promise, over.signal);
  };
  const ownDeps: ScoreDependencies = {
    ...deps,
    models: defaults === undefined ? repository : withDefaults(repository, defaults),
    payloads: hasPayloads ? createPayloadReader(call) : undefined,
    plan: isAlone ? planAlone : plan,
    runAlone: isAlone,
    repeats: isAlone ? undefined : deps.repeats,
    observer,
  };
  const bodies = bodiesOf(keysAndBodies, refusals);
  if (isAlone) {
    for (const [index, body] of bodies.entries()) {
      if (over.signal.aborted) break;
      blame({ is: 'body', call, body: index });
      await score([body], withBody(index, ownDeps, observer), time, (replies) =>
        sink(replies.map((reply) => ({ ...reply, of: index }))),
      );
    }
  } else await score(bodies, ownDeps, time, sink);
  calls.delete(call);
  tell({ is: 'done', call, told: takeTold() });
}

function bodiesOf(
  keysAndBodies: readonly Body[],
  refusals: Extract<ToScorer, { is: 'score' }>['refusals'],
): readonly KeyedBody[] {
  const bodies = Array.from({ length: keysAndBodies.length / 2 }, (_, index): KeyedBody => {
    return { key: keysAndBodies[2 * index] as string, body: keysAndBodies[2 * index + 1] as Body };
  });
  for (const [index, those] of Map.groupBy(refusals, ({ body }) => body)) {
    const refused = new Map(those.map(({ position, failure }) => [position, revive(failure)]));
    bodies[index] = { ...(bodies[index] as KeyedBody), refused };
  }
  return bodies;
}

/** Plans each request separately, so that it shares no run. */
const planAlone: Planner = (...how) => ({
  add(request) {
    const own = plan(...how);
    return [...own.add(request), ...own.finish()];
  },
  finish: () => [],
});

/** Returns the dependencies of a body that is scored by itself, as the only one of its call to the core. */
function withBody(index: number, deps: ScoreDependencies, observer: Observer): ScoreDependencies {
  return {
    ...deps,
    observer: {
      ...observer,
      begins: (work) =>
        observer.begins?.({ ...work, requests: work.requests.map((request) => ({ ...request, bodyIndex: index })) }) ??
        (() => {}),
      microBatch: (report) => observer.microBatch(report, () => [index]),
    },
  };
}

/** @returns size of the answers */
function tellReplies(call: number, replies: readonly Reply[], told: readonly Told[]): number {
  const answers = replies.filter(isAnswer);
  const back = replies.filter(isHandedBack);
  const notes = answers.flatMap(({ failures, requests, outputs }, at) =>
    failures.length === 0 && requests === 1 && outputs === undefined ? [] : [{ at, failures, requests, outputs }],
  );
  const of = [...answers, ...back].map((reply) => reply.of);
  const texts = answers.map(({ text }) => text);
  tell({ is: 'replies', call, replies: { of, texts, notes, handedBack: back.map(({ failure }) => failure) }, told });
  return answers.reduce((sum, answer) => sum + answerSize(answer), 0);
}

function isAnswer(reply: Reply): reply is Answer {
  return !isHandedBack(reply);
}

function createObserver(call: number, isAlone: boolean, say: (told: Told) => void, hasStages: boolean): Observer {
  return {
    microBatch: (report, bodies) => say({ is: 'microBatch', report, bodies: bodies() }),
    decoded: (ms) => say({ is: 'decoded', ms }),
    transformed: (report) => say({ is: 'transformed', report }),
    checked: (ms) => say({ is: 'checked', ms }),
    batchMismatch: (mismatch) => say({ is: 'batchMismatch', mismatch }),
    written: () => {},
    begins: (work) => begin(call, isAlone, work),
    ...(hasStages && { stage: (...stage) => say({ is: 'stage', stage }) }),
    problem: (error) => say({ is: 'problem', error: plainError(error) }),
  };
}

/** Copies an error without properties that cannot be serialized. */
function plainError(error: unknown): Error {
  const plain = new Error(messageOf(error));
  if (error instanceof Error) Object.assign(plain, { name: error.name, stack: error.stack });
  return plain;
}

/** Work that has ended and that the host does not know of yet. */
const endedWorks: number[] = [];

function tellEnd(work: number): void {
  if (endedWorks.push(work) > 1) return;
  process.nextTick(() => {
    if (endedWorks.length > 0) tell({ is: 'ended', works: endedWorks.splice(0) });
  });
}

const ALIVE_MS = 100;
let transforms = 0;
let beat: NodeJS.Timeout | undefined;

/**
 * Reports the beginning of work. During a transform the process also reports that its event loop runs, so that the host
 * can distinguish a transform that waits from one that blocks.
 */
function begin(call: number, isAlone: boolean, { model, expectedMs, requests, isRun }: WorkUnderWay): () => void {
  const work = works++;
  const places = new Int32Array(2 * requests.length);
  for (const [index, { bodyIndex, position }] of requests.entries()) {
    places[2 * index] = bodyIndex;
    places[2 * index + 1] = position;
  }
  blame({ is: 'begins', work, call, isRun, model, expectedMs, places, ended: endedWorks.splice(0) });
  if (!isRun) {
    transforms += 1;
    beat ??= setInterval(() => tell({ is: 'alive' }), ALIVE_MS).unref();
  }
  return () => {
    // If requests run one after the other, only the current one may be to blame.
    if (isAlone) blame({ is: 'ends', work });
    else tellEnd(work);
    if (isRun) return;
    transforms -= 1;
    if (transforms > 0) return;
    clearInterval(beat);
    beat = undefined;
  };
}

/** Creates a reader of objects by the host, which has the credentials. */
function createPayloadReader(call: number): PayloadReader {
  return {
    async read(pointer, { admit }: PayloadReadOptions) {
      const ask = asks++;
      const read = Promise.withResolvers<Awaited<ReturnType<PayloadReader['read']>>>();
      asked.set(ask, (frame) => {
        if (frame.is === 'size') void admit(frame.bytes).then(() => tell({ is: 'room', ask }));
        else if (frame.is === 'payload') read.resolve(typeof frame.read === 'string' ? frame.read : revive(frame.read));
      });
      tell({ is: 'read', ask, call, pointer });
      try {
        return await read.promise;
      } finally {
        asked.delete(ask);
      }
    },
  };
}
