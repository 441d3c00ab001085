import {
  type ActOnMessages,
  createPoller,
  createReceiver,
  createVisibilityActions,
  type Extension,
} from '../aws/requestQueue.ts';
import { MAX_BATCH_ENTRIES, type SqsCaller } from '../aws/sqsMessages.ts';
import { type Clock, SYSTEM_CLOCK } from '../core/concurrency.ts';
import { messageOf, type TransientCode } from '../core/failure.ts';
import { BATCH_BYTES, DRAIN_SHARE, END_SHARE } from '../core/limits.ts';
import type { MessageRecord, Outcome } from '../core/record.ts';
import { CONFIG_KEYS } from '../settings.ts';
import type { Composition } from './compose.ts';
import type { Config } from './config.ts';
import { createAdaptiveLimit, createModelQueues, queueNames, queueOf } from './modelQueues.ts';
import { type ScoringDependencies, scoreRecords } from './records.ts';

interface WorkerOptions {
  readonly settings: WorkerSettings;
  readonly composition: Composition;
  readonly sqs: SqsCaller;
  /** Called if SQS did not act. The call is retried, or messages come back. */
  readonly onProblem: (error: Error) => void;
}

interface Tally {
  readonly finished: number;
  readonly handedBack: number;
}

/** Receives, gathers and scores until it is stopped. */
export interface Worker {
  /** Returns the number of records that are received and neither deleted nor handed back. */
  leased(): number;
  tally(): Tally;
  /**
   * Starts no more polls, scores the held records and those of open polls within `drainMs`, and hands back the rest.
   * Nothing is made visible while a poll is open, because the poll would receive it again. Resolves when SQS has been
   * told about all records.
   */
  drain(): Promise<void>;
}

/** Maximum size of waiting bodies: two full batches. */
const MAX_PENDING_BYTES = 2 * BATCH_BYTES;

/** Joins workers of different queues into one. */
export function joinWorkers(workers: readonly Worker[]): Worker {
  const total = (countOf: (worker: Worker) => number): number => workers.reduce((sum, one) => sum + countOf(one), 0);
  return {
    leased: () => total((one) => one.leased()),
    tally: () => ({
      finished: total((one) => one.tally().finished),
      handedBack: total((one) => one.tally().handedBack),
    }),
    drain: async () => void (await Promise.all(workers.map((one) => one.drain()))),
  };
}

export function startWorker({ settings, composition, sqs, onProblem }: WorkerOptions): Worker {
  const { scoring, telemetry, scorer } = composition;
  const { queueUrls, batchSize, timeoutMs } = settings;
  const depth = settings.depth * scorer.devices;
  const isFifo = queueUrls.some((url) => url.endsWith('.fifo'));
  const names = queueNames(scorer.models, isFifo);
  const { signal } = new AbortController();
  const visibility = createVisibilityActions({ sqs, queueUrls, onProblem });
  const adaptiveLimit = createAdaptiveLimit(batchSize, timeoutMs);
  const late = new Set<Promise<void>>();
  const telling = new Set<Promise<void> | undefined>();
  let finished = 0;
  let handedBack = 0;
  let draining: Promise<void> | undefined;
  let isOutOfTime = false;
  /** True if no result of the last batch could be written. */
  let isStoreOut = false;

  const release = (records: readonly MessageRecord[]): void => {
    leases.remove(records);
    poller.poll();
  };
  /**
   * Tells SQS when records come back. It first stops polls of an ending worker, which would receive them, and
   * heartbeats, which would hide them.
   */
  const comeBack = async (records: readonly MessageRecord[], tell: Composition['delayRetries']): Promise<void> => {
    if (draining !== undefined) await poller.stop();
    await leases.endExtending(records);
    if (records.length > 0) await tell(records, signal);
  };
  const handBack = (records: readonly MessageRecord[]): Promise<void> => comeBack(records, visibility.handBack);
  const handBackUnscored = async (records: readonly MessageRecord[]): Promise<void> => {
    await handBack(records);
    handedBack += records.length;
    release(records);
  };
  const leases = createVisibilityLeases({
    visibilitySeconds: settings.visibilitySeconds,
    extend: visibility.extend,
    onExpired(records) {
      onProblem(new Error(`heartbeat: ${records.size} records were not extended in time; others may score them too`));
      leases.remove(modelQueues.drop(records));
      poller.poll();
    },
  });
  const dispatcher = createDispatcher({
    scoring,
    timeoutMs,
    acknowledge: (records) => composition.acknowledge(records, signal),
    delayRetries: (records) => comeBack(records, composition.delayRetries),
    handBack,
    onScored(outcomes, records) {
      telemetry.outcomes(outcomes, records);
      const told = composition.announceDeadLetters?.(outcomes, records).finally(() => telling.delete(told));
      if (told) telling.add(told);
      const answered = outcomes.filter(({ status }) => status === 'answered').length;
      finished += answered;
      handedBack += outcomes.length - answered;
      isStoreOut = answered === 0 && outcomes.some(isUnwritten);
      if (isStoreOut) poller.pause();
      else if (answered > 0) poller.goOn();
    },
    onSettled: release,
  });
  const modelQueues = createModelQueues({
    names,
    queueOf: (record) => queueOf(record, names),
    limitsOf: (queue) => ({
      batchSize: adaptiveLimit.limitOf(queue),
      batchBytes: BATCH_BYTES,
      windowMs: settings.windowMs,
    }),
    depth,
    keepsTogether: isFifo,
    async dispatch(records, queue) {
      const startedAt = scoring.now();
      await dispatcher.dispatch(records);
      if (!isStoreOut) adaptiveLimit.record(queue, records.length, scoring.now() - startedAt);
      poller.poll();
    },
  });
  const poller = createPollers({
    settings,
    sqs,
    onError: onProblem,
    hasRoom(records, bytes) {
      const pending = modelQueues.pending();
      const max = names.reduce((sum, name) => sum + adaptiveLimit.limitOf(name), 0);
      return (
        pending.records + records < max &&
        pending.bytes + bytes < MAX_PENDING_BYTES &&
        leases.size() + records < 2 * (depth + 1) * max
      );
    },
    take(records) {
      leases.add(records);
      if (!isOutOfTime) return modelQueues.add(records);
      const back = handBackUnscored(records).finally(() => late.delete(back));
      late.add(back);
    },
  });
  const drain = (): Promise<void> => {
    draining ??= drainOnce();
    return draining;
  };
  const drainOnce = async (): Promise<void> => {
    const outOfTime = dispatcher.endWithin(settings.drainMs);
    modelQueues.endWindow();
    await Promise.race([outOfTime, poller.stop().then(modelQueues.idle)]);
    isOutOfTime = true;
    poller.abort();
    await Promise.all([handBackUnscored(modelQueues.takeAll()), modelQueues.idle()]);
    await Promise.all([dispatcher.waitUntilSettled(), ...late]);
    await Promise.all(telling);
    leases.stop();
  };
  poller.poll();
  return {
    leased: () => leases.size(),
    tally: () => ({ finished, handedBack }),
    drain,
  };
}

/** Returns true if an unavailable result store is the reason why the record has no answer. */
function isUnwritten(outcome: Outcome): boolean {
  return outcome.status === 'retry' && outcome.failure.code === 'WRITE_FAILED' && outcome.failure.outage !== undefined;
}

type OnRecords = (records: readonly MessageRecord[]) => Promise<unknown>;

interface DispatcherOptions {
  readonly scoring: ScoringDependencies;
  readonly timeoutMs: number;
  readonly acknowledge: OnRecords;
  /** Makes records come back after a backoff. */
  readonly delayRetries: OnRecords;
  /** Makes records come back immediately. */
  readonly handBack: OnRecords;
  /** Takes the outcomes of a scored batch. */
  readonly onScored: (outcomes: readonly Outcome[], records: readonly MessageRecord[]) => void;
  /** Takes records after all calls of SQS about them, successful or not. */
  readonly onSettled: (records: readonly MessageRecord[]) => void;
}

interface Dispatcher {
  /**
   * Scores a batch. Resolves when its results are written, while its deletes continue, or when its remaining requests
   * run alone, which may take long. Never throws.
   */
  dispatch(records: readonly MessageRecord[]): Promise<void>;
  /**
   * Hands back records whose scoring does not end within `ms` milliseconds, from now on. Resolves when work in progress
   * is aborted: there is no time for another batch.
   */
  endWithin(ms: number): Promise<void>;
  /** Resolves when SQS has been told about all scored records. */
  waitUntilSettled(): Promise<void>;
}

/** Codes of records that were not scored for lack of time. They need no backoff. */
const UNSCORED: ReadonlySet<TransientCode> = new Set(['DEADLINE', 'BEHIND_RETRY']);

function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { scoring, timeoutMs, acknowledge, delayRetries, handBack, onScored, onSettled } = options;
  const writingMs = scoring.limits.deadlineMarginMs / 2;
  const settling = new Set<Promise<void>>();
  const running = new Set<AbortController>();
  let stopAt = Number.POSITIVE_INFINITY;

  const settle = async (records: readonly MessageRecord[], outcomes: readonly Outcome[]): Promise<void> => {
    const isStopping = Number.isFinite(stopAt);
    const actOn = (outcome: Outcome | undefined): OnRecords => {
      if (outcome?.status === 'answered') return acknowledge;
      return isStopping && outcome !== undefined && UNSCORED.has(outcome.failure.code) ? handBack : delayRetries;
    };
    const byAct = Map.groupBy(records.keys(), (index) => actOn(outcomes[index]));
    await Promise.all(
      Array.from(byAct, async ([act, indexes]) => {
        const those = indexes.map((index) => records[index] as MessageRecord);
        await act(those);
        onSettled(those);
      }),
    );
  };
  return {
    async dispatch(records) {
      const outOfTime = new AbortController();
      const isLong = Promise.withResolvers<void>();
      let endsAt = 0;
      let timer: NodeJS.Timeout | undefined;
      const start = (): void => {
        endsAt = scoring.now() + timeoutMs;
        clearTimeout(timer);
        timer = setTimeout(() => outOfTime.abort(), Math.max(0, timeoutMs - writingMs));
      };
      const renew = (): void => {
        if (!outOfTime.signal.aborted) start();
        isLong.resolve();
      };
      start();
      running.add(outOfTime);
      const remainingMs = (): number => Math.min(endsAt, stopAt) - scoring.now();
      const scored = scoreRecords(records, scoring, { remainingMs, signal: outOfTime.signal, renew }).then(
        (outcomes) => {
          clearTimeout(timer);
          running.delete(outOfTime);
          onScored(outcomes, records);
          const settled = settle(records, outcomes).finally(() => settling.delete(settled));
          settling.add(settled);
        },
      );
      const ended = scored.finally(() => settling.delete(ended));
      settling.add(ended);
      await Promise.race([scored, isLong.promise]);
    },
    endWithin(ms) {
      stopAt = scoring.now() + ms;
      const cutShort = Promise.withResolvers<void>();
      const endAll = (): void => {
        for (const outOfTime of running) outOfTime.abort();
        cutShort.resolve();
      };
      setTimeout(endAll, Math.max(0, ms - writingMs)).unref();
      return cutShort.promise;
    },
    async waitUntilSettled() {
      while (settling.size > 0) await Promise.all(settling);
    },
  };
}

interface PollersOptions {
  readonly settings: WorkerSettings;
  readonly sqs: SqsCaller;
  /** Returns true if there is room for `records` more, with about `bytes` of bodies. */
  readonly hasRoom: (records: number, bytes: number) => boolean;
  readonly take: (records: readonly MessageRecord[]) => void;
  /** Called if a receive failed, which is retried after a pause, or if messages are invalid. */
  readonly onError: (error: Error) => void;
}

interface Pollers {
  /** Starts polls. Call it whenever room is freed. */
  poll(): void;
  /** Pauses because no result could be written. Pauses grow until `goOn` is called. */
  pause(): void;
  goOn(): void;
  /**
   * Starts no more polls. Resolves when those in flight have returned. They are not aborted, because SQS may still send
   * them messages, which would then be hidden until their visibility timeout.
   */
  stop(): Promise<void>;
  abort(): void;
}

function createPollers({ settings, sqs, hasRoom, take, onError }: PollersOptions): Pollers {
  const { queueUrls, batchSize, maxPolls } = settings;
  const recordsAPoll = Math.min(MAX_BATCH_ENTRIES, batchSize);
  const givenUp = new AbortController();
  let coming = 0;
  let bytesAPoll = 0;
  const pollers = queueUrls.map((queueUrl) => {
    const receive = createReceiver({ ...settings, queueUrl, sqs, max: recordsAPoll, onProblem: onError });
    return createPoller<MessageRecord>({
      async receive() {
        coming += recordsAPoll;
        try {
          return await receive(givenUp.signal);
        } finally {
          coming -= recordsAPoll;
        }
      },
      recordsAPoll,
      maxPolls: Math.max(1, Math.floor(maxPolls / queueUrls.length)),
      hasRoom: () => hasRoom(coming, (coming / recordsAPoll) * bytesAPoll),
      take(records) {
        bytesAPoll = records.reduce((sum, { body }) => sum + body.length, 0);
        take(records);
      },
      onError: (cause) => onError(failedReceive(queueUrl, cause, givenUp.signal.aborted)),
      pauseMs: backoffMs,
      waitMs: 1000 * settings.waitSeconds,
    });
  });
  return {
    poll() {
      for (const poller of pollers) poller.poll();
    },
    pause() {
      for (const poller of pollers) poller.pause();
    },
    goOn() {
      for (const poller of pollers) poller.goOn();
    },
    stop: async () => void (await Promise.all(pollers.map((poller) => poller.stop()))),
    abort: () => givenUp.abort(),
  };
}

function failedReceive(queueUrl: string, cause: unknown, isGivenUp: boolean): Error {
  const then = isGivenUp
    ? 'there is no time left to wait; messages of this poll come back after their visibility timeout'
    : 'it is tried again';
  const message = `receiving from ${queueUrl}: expected messages or none, got '${messageOf(cause)}'; ${then}`;
  return new Error(message, { cause });
}

const FIRST_BACKOFF_MS = 200;
const MAX_BACKOFF_MS = 20_000;

/** Returns a random pause between half and all of 0.2, 0.4, 0.8, … seconds, at most 20. */
function backoffMs(failures: number): number {
  const longest = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (failures - 1));
  return longest / 2 + (Math.random() * longest) / 2;
}

interface VisibilityLeasesOptions {
  readonly visibilitySeconds: number;
  readonly extend: ActOnMessages<Extension>;
  /** Takes records whose visibility timeout ended although they should have been extended. */
  readonly onExpired: (records: ReadonlySet<MessageRecord>) => void;
  /** @default the system's clock */
  readonly clock?: Clock | undefined;
}

/** Keeps received records invisible to others until they are deleted or handed back. */
export interface VisibilityLeases {
  add(records: readonly MessageRecord[]): void;
  /** Stops extending records, which still count. Resolves when no extension is in flight. */
  endExtending(records: readonly MessageRecord[]): Promise<void>;
  remove(records: readonly MessageRecord[]): void;
  size(): number;
  stop(): void;
}

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html */
const MAX_HIDDEN_SECONDS = 43_200;
/** A record is extended after a third of its time, which leaves two more attempts. */
const EXTEND_AT_SHARE_LEFT = 2 / 3;
const LOOKS_PER_VISIBILITY = 12;

interface Hold {
  readonly receivedAt: number;
  visibleAt: number;
  isExtended: boolean;
}

export function createVisibilityLeases({
  visibilitySeconds,
  extend,
  onExpired,
  clock = SYSTEM_CLOCK,
}: VisibilityLeasesOptions): VisibilityLeases {
  const visibilityMs = 1000 * visibilitySeconds;
  const held = new Map<MessageRecord, Hold>();
  let extending: Promise<void> | undefined;

  const look = (): void => {
    cancel = clock.after(visibilityMs / LOOKS_PER_VISIBILITY, look);
    const now = clock.now();
    const due: Extension[] = [];
    const lost = new Set<MessageRecord>();
    for (const [record, { receivedAt, visibleAt, isExtended }] of held) {
      if (!isExtended) continue;
      const left = visibleAt - now;
      const seconds = Math.min(visibilitySeconds, MAX_HIDDEN_SECONDS - Math.ceil((now - receivedAt) / 1000));
      if (left <= 0) lost.add(record);
      else if (left < visibilityMs * EXTEND_AT_SHARE_LEFT && seconds > 0) {
        const { receiptHandle, eventSourceARN } = record;
        due.push({ record, receiptHandle, eventSourceARN, seconds });
      }
    }
    if (lost.size > 0) {
      for (const record of lost) held.delete(record);
      onExpired(lost);
    }
    if (due.length > 0) {
      extending ??= extendAll(due, now).finally(() => {
        extending = undefined;
      });
    }
  };
  const extendAll = async (due: readonly Extension[], now: number): Promise<void> => {
    const refused = new Set(await extend(due, AbortSignal.timeout(Math.ceil(visibilityMs / 3))));
    for (const one of due) {
      const hold = held.get(one.record);
      if (hold !== undefined && !refused.has(one)) hold.visibleAt = now + 1000 * one.seconds;
    }
  };
  let cancel = clock.after(visibilityMs / LOOKS_PER_VISIBILITY, look);
  return {
    add(records) {
      const receivedAt = clock.now();
      const visibleAt = receivedAt + visibilityMs;
      for (const record of records) held.set(record, { receivedAt, visibleAt, isExtended: true });
    },
    async endExtending(records) {
      for (const record of records) {
        const hold = held.get(record);
        if (hold !== undefined) hold.isExtended = false;
      }
      await extending;
    },
    remove(records) {
      for (const record of records) held.delete(record);
    },
    size: () => held.size,
    stop: () => cancel(),
  };
}

export interface WorkerSettings {
  readonly queueUrls: readonly string[];
  readonly batchSize: number;
  readonly windowMs: number;
  readonly depth: number;
  readonly maxPolls: number;
  readonly waitSeconds: number;
  readonly visibilitySeconds: number;
  readonly timeoutMs: number;
  /** Times from SIGTERM until work in progress is aborted, and until the process ends in any case. */
  readonly drainMs: number;
  readonly endMs: number;
}

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-short-and-long-polling.html */
const MAX_WAIT_SECONDS = 20;

/**
 * Derives the settings of a worker. Polls are short enough to end before the process does, because they are not
 * aborted.
 *
 * @throws Error if a batch has no time in which a run may start
 */
export function workerSettings(config: Config): WorkerSettings {
  const { batchSize = config.maxBatchRows, windowSeconds = 0, stopSeconds, timeoutSeconds, deadlineMarginMs } = config;
  if (1000 * timeoutSeconds <= deadlineMarginMs) {
    throw new Error(
      `configuration: ${CONFIG_KEYS.timeoutSeconds}: expected more than ${CONFIG_KEYS.deadlineMarginMs}, ` +
        `${deadlineMarginMs} ms, in which no run starts, got ${timeoutSeconds} s; raise it, or lower the margin`,
    );
  }
  return {
    queueUrls: config.requestQueueUrls,
    batchSize,
    windowMs: 1000 * windowSeconds,
    depth: config.pipelineDepth,
    maxPolls: config.maxPolls,
    waitSeconds: Math.min(MAX_WAIT_SECONDS, Math.floor(stopSeconds / 2)),
    visibilitySeconds: config.visibilitySeconds,
    timeoutMs: 1000 * timeoutSeconds,
    drainMs: 1000 * stopSeconds * DRAIN_SHARE,
    endMs: 1000 * stopSeconds * END_SHARE,
  };
}
