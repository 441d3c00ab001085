import { join } from 'node:path';
import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  PurgeQueueCommand,
  type QueueAttributeName,
  SendMessageBatchCommand,
  SendMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { z } from 'zod';
import { createQueueWriter } from '../../../lambda/aws/resultQueue.ts';
import { isFailure, messageOf } from '../../../lambda/core/failure.ts';
import { FILL, mappingProblems, outside, type Range } from '../../../lambda/core/limits.ts';
import { type Model, shapeInModel, type TensorSpec } from '../../../lambda/core/model.ts';
import type { ResultWriter } from '../../../lambda/core/record.ts';
import { readSampleLines } from '../../../lambda/onnx/probes.ts';
import { BATCH_CLOSED, MICRO_BATCH_CLOSED } from '../../closedBecause.ts';
import type { EventSourceMapping, GatherLimits } from '../localMapping.ts';
import { type LocalQueues, localSqsClient } from '../localServices.ts';
import {
  type Batching,
  type LocalStack,
  type LocalStackOptions,
  MAXIMUM_CONCURRENCY,
  startLocalStack,
} from '../localStack.ts';
import { alsoTell, createMonitor, type Monitor, ownAttributes } from './pageMonitor.ts';
import { type Control, createStream, type PageServer, startPageServer } from './pageServer.ts';
import type { LoadSeen, ModelSeen, QueuesSeen, SettingsSeen, State, TensorSeen } from './wire.ts';

interface ServePageOptions extends Omit<LocalStackOptions, 'watch'> {
  readonly batching: Batching;
  /** Of the page, on 127.0.0.1. @default the one after `port`, or any where that is taken */
  readonly pagePort?: number | undefined;
}

export interface ServedPage {
  readonly stack: LocalStack;
  /** URL of the page. */
  readonly page: string;
  /** Finishes what was received, runs of models included. */
  stop(): Promise<void>;
}

/** Starts the local stack, hands messages to its function, and serves the page that shows it. */
export async function servePage({ batching, pagePort, ...options }: ServePageOptions): Promise<ServedPage> {
  const monitor = createMonitor();
  const telemetry = alsoTell(options.telemetry, monitor.telemetry);
  const stack = await startLocalStack({ ...options, telemetry, watch: monitor.watch });
  const mapping = stack.startMapping(batching);
  const stop = async (): Promise<void> => {
    await mapping.stop();
    await stack.stop();
  };
  try {
    const { modelsDirectory, warn } = options;
    const page = await startPage({ stack, mapping, monitor, batching, modelsDirectory, port: pagePort, warn });
    return {
      stack,
      page: page.url,
      async stop() {
        await page.close();
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

interface PageOptions {
  readonly stack: LocalStack;
  readonly mapping: EventSourceMapping;
  readonly monitor: Monitor;
  readonly batching: Batching;
  readonly modelsDirectory: string;
  /** On 127.0.0.1. @default the one after the queues', or any where that is taken */
  readonly port?: number | undefined;
  /** Told what went wrong. */
  readonly warn: (message: string) => void;
}

const NEWS_MS = 250;
const TICK_MS = 1_000;
const TAKE_AWAY_MS = 5_000;

/** Serves a page that shows what a stack does, and does something with it. @throws Error when its port is taken */
async function startPage(options: PageOptions): Promise<PageServer> {
  const { stack, mapping, monitor, warn } = options;
  const sqs = localSqsClient(stack.queues);
  const ownResults = await createOwnResults(stack);
  const models = await lookAtModels(stack, options.modelsDirectory);
  const names = [...new Set(stack.models.map(({ name }) => name))];
  const loadModels = names.filter((name) => models.samplesOf(name).length > 0);
  const queueWatch = createQueueWatch({ sqs, queues: stack.queues, newestSentAt: monitor.newestSentAt });

  let batching: GatherLimits = options.batching;
  const { maximumConcurrency = MAXIMUM_CONCURRENCY } = options.batching;
  const gathered = maximumConcurrency * stack.queues.requestQueues.length;
  let queues: QueuesSeen | undefined;
  const settings = (): SettingsSeen => {
    const { batchSize, windowSeconds } = batching;
    return { batchSize, windowSeconds, gathered, load: load.seen() };
  };
  const load = createLoad({
    sqs,
    queueUrls: stack.queues.requestQueues.map(({ queueUrl }) => queueUrl),
    model: loadModels[0] ?? '',
    samplesOf: models.samplesOf,
    waiting: () => queues?.waiting ?? 0,
    onSent: monitor.sent,
    onChange: () => tellState(),
  });

  const every = (ms: number, act: () => Promise<void> | void): NodeJS.Timeout => {
    let isAtIt = false;
    return setInterval(async () => {
      if (isAtIt) return;
      isAtIt = true;
      try {
        await act();
      } catch (error) {
        warn(`page: ${messageOf(error)}`);
      }
      isAtIt = false;
    }, ms);
  };
  const state = (): State => ({
    closed: { batch: BATCH_CLOSED, microBatch: MICRO_BATCH_CLOSED },
    models: models.all(),
    loadModels,
    settings: settings(),
    queues,
    ...monitor.seen(),
  });
  const tellState = (): void => stream.tell('state', state());
  let toldInvocation = 0;
  /** Under load lists change once a second: nobody could read them else. */
  const tellNews = (): void => {
    const newest = monitor.seen().invocations.at(-1)?.number ?? 0;
    if (newest !== toldInvocation && load.seen().perSecond === 0) tellState();
    toldInvocation = newest;
  };
  const tick = async (): Promise<void> => {
    queues = await queueWatch.look();
    tellState();
  };
  const takingAway = every(TAKE_AWAY_MS, ownResults.takeAway);
  /** Only while somebody looks. */
  let watching: NodeJS.Timeout[] = [];
  const stream = createStream({
    onWatched(isWatched) {
      for (const timer of watching) clearInterval(timer);
      watching = isWatched ? [every(NEWS_MS, tellNews), every(TICK_MS, tick)] : [];
      if (!isWatched) void load.stop();
    },
  });
  monitor.answerOwnTo(ownResults.writer);
  monitor.batchSizeIs(batching.batchSize);
  monitor.onAnswer((answer) => stream.tell('answer', answer));
  const controls = createControls({
    loadModels,
    setBatching(limits) {
      mapping.update(limits);
      batching = limits;
      monitor.batchSizeIs(limits.batchSize);
      tellState();
    },
    setLoad(perSecond, model) {
      if (!stream.isWatched()) throw new Error('load: expected a page that is open, got none; open the page first');
      load.set(perSecond, model);
      tellState();
    },
    async send(body) {
      const QueueUrl = stack.queues.requestQueueUrl;
      const MessageAttributes = ownAttributes('ask');
      const { MessageId = '' } = await sqs.send(
        new SendMessageCommand({ QueueUrl, MessageBody: body, MessageAttributes }),
      );
      monitor.sent(1);
      return MessageId;
    },
  });
  const close = async (): Promise<void> => {
    stream.close();
    clearInterval(takingAway);
    await load.stop();
    sqs.destroy();
  };
  try {
    const server = await startPageServer({
      port: options.port,
      preferredPort: portAfter(stack.queues.endpoint),
      openStream: (response) => stream.open(response, state()),
      controls,
    });
    return {
      url: server.url,
      async close() {
        await close();
        await server.close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function portAfter(endpoint: string): number {
  return (Number(new URL(endpoint).port) + 1) % 65_536;
}

interface ControlOptions {
  readonly setBatching: (limits: GatherLimits) => void;
  readonly setLoad: (perSecond: number, model: string) => void;
  /** Models whose samples may be sent. */
  readonly loadModels: readonly string[];
  /** @returns the message ID */
  readonly send: (body: string) => Promise<string>;
}

const BATCHING = z.strictObject({ batchSize: z.int(), windowSeconds: z.int() });
const LOAD = z.strictObject({ perSecond: z.int(), model: z.string().max(256) });
const ASK = z.strictObject({ body: z.string().min(1).max(60_000) });

/** What the page may do, by path. */
function createControls({ setBatching, setLoad, loadModels, send }: ControlOptions): Record<string, Control> {
  return {
    '/batching'(body) {
      const limits = parsed(BATCHING, body, '{"batchSize": …, "windowSeconds": …}, both whole numbers');
      const problems = mappingProblems({ ...limits, fifo: false });
      if (problems.length > 0) throw new Error(problems.join('; '));
      setBatching(limits);
      return limits;
    },
    '/load'(body) {
      const { perSecond, model } = parsed(LOAD, body, '{"perSecond": …, "model": …}, a whole number and a name');
      const problem = outside('perSecond', perSecond, LOAD_PER_SECOND);
      if (problem !== undefined) throw new Error(problem);
      if (!loadModels.includes(model)) {
        const known = loadModels.join(', ') || 'a model with samples.jsonl, and there is none';
        throw new Error(`model: expected ${known}, got another; put samples.jsonl beside its versions`);
      }
      setLoad(perSecond, model);
      return { perSecond, model };
    },
    async '/ask'(body) {
      const { body: text } = parsed(ASK, body, '{"body": …}, a text of 1 to 60,000 characters');
      return { messageId: await send(text) };
    },
  };
}

function parsed<T>(schema: z.ZodType<T>, body: unknown, expected: string): T {
  const { success, data } = schema.safeParse(body);
  if (!success) throw new Error(`body: expected ${expected}, got something else`);
  return data;
}

const MAX_SAMPLE_CHARACTERS = 32_768;

/** The models of a stack as a page shows them, from the repository that the function has opened: none is loaded twice. */
async function lookAtModels({ models, scoring }: Pick<LocalStack, 'models' | 'scoring'>, modelsDirectory: string) {
  const samples = new Map<string, readonly string[]>();
  const found: Model[] = [];
  for (const { name, version } of models) {
    if (!samples.has(name)) samples.set(name, await samplesIn(modelsDirectory, name));
    const model = await scoring.models.find(name, version);
    if (!isFailure(model)) found.push(model);
  }
  const samplesOf = (name: string): readonly string[] => samples.get(name) ?? [];
  return {
    /** Texts of requests of a model; none where it has no samples. */
    samplesOf,
    all: (): ModelSeen[] =>
      found.map((model) => seenOf(model, scoring.batching.batchingOf(model), samplesOf(model.name)[0])),
  };
}

/** Each is given the model's name, so that it is a request of this model among others. */
async function samplesIn(modelsDirectory: string, name: string): Promise<string[]> {
  const { lines } = await readSampleLines(join(modelsDirectory, name));
  return lines
    .filter(({ line }) => line.length <= MAX_SAMPLE_CHARACTERS)
    .flatMap(({ line }) => {
      const request: unknown = JSON.parse(line);
      const isObject = typeof request === 'object' && request !== null && !Array.isArray(request);
      return isObject ? [JSON.stringify({ model_name: name, ...request })] : [];
    });
}

function seenOf(model: Model, batching: ModelSeen['batching'], sample: string | undefined): ModelSeen {
  const {
    name,
    version,
    inputs,
    outputs,
    maxBatchRows,
    allowedSizes,
    ragged,
    transform,
    independence = 'trusted',
  } = model;
  return {
    name,
    version,
    inputs: inputs.map(tensorOf),
    outputs: outputs.map(tensorOf),
    independence,
    batching,
    maxBatchRows,
    allowedSizes,
    raggedAxis: ragged?.name,
    hasTransform: transform !== undefined,
    sample,
  };
}

function tensorOf(spec: TensorSpec): TensorSeen {
  return { name: spec.name, datatype: spec.datatype, shape: shapeInModel(spec, spec.shape) };
}

const QUEUE = 'batchscore-page-results';

/** Where what the page sends is answered: it costs the function as much as anybody's, and nobody's queue fills up. */
async function createOwnResults({ sqs, queues, config }: Pick<LocalStack, 'sqs' | 'queues' | 'config'>) {
  await sqs.send(new CreateQueueCommand({ QueueName: QUEUE }));
  const queueUrl = queues.resultQueueUrl.replace(/[^/]+$/, QUEUE);
  const { resultsPerMessage, resultMessageBytes: bytes } = config;
  const results = resultsPerMessage === FILL ? Number.POSITIVE_INFINITY : resultsPerMessage;
  const own = createQueueWriter({ sqs, queueUrl, packing: { results, bytes } });
  let holdsSome = false;
  const writer: ResultWriter = {
    write(all, signal) {
      holdsSome = true;
      return own.write(all, signal);
    },
  };
  return {
    writer,
    /** Takes away what was written: nobody receives it. */
    async takeAway(): Promise<void> {
      if (!holdsSome) return;
      holdsSome = false;
      await sqs.send(new PurgeQueueCommand({ QueueUrl: queueUrl }));
    },
  };
}

interface QueuesOptions {
  readonly sqs: SQSClient;
  readonly queues: LocalQueues;
  /** When the newest message was sent that was handed to the function, in milliseconds since 1970. */
  readonly newestSentAt: () => number;
  /** Asked for what is there once, which takes a moment. @default the system's */
  readonly now?: () => number;
}

/** Asks how much lies on the queues. */
export function createQueueWatch({ sqs, queues, newestSentAt, now = Date.now }: QueuesOptions): {
  look(): Promise<QueuesSeen>;
} {
  let emptyAt = now();
  const countsOf = async (QueueUrl: string): Promise<{ waiting: number; inFlight: number }> => {
    const { Attributes = {} } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: NAMES }));
    const { ApproximateNumberOfMessages: waiting, ApproximateNumberOfMessagesNotVisible: inFlight } = Attributes;
    return { waiting: Number(waiting), inFlight: Number(inFlight) };
  };
  return {
    async look() {
      const [requests, deadLetters, results] = await Promise.all([
        Promise.all(queues.requestQueues.map(({ queueUrl }) => countsOf(queueUrl))),
        countsOf(queues.deadLetterQueueUrl),
        countsOf(queues.resultQueueUrl),
      ]);
      const waiting = requests.reduce((sum, one) => sum + one.waiting, 0);
      if (waiting === 0) emptyAt = now();
      return {
        waiting,
        inFlight: requests.reduce((sum, one) => sum + one.inFlight, 0),
        // What waits was sent after what was handed over, as a rule, and after the queue was empty.
        oldestMs: waiting === 0 ? 0 : Math.max(0, now() - Math.max(emptyAt, newestSentAt())),
        deadLetters: deadLetters.waiting,
        results: results.waiting + results.inFlight,
      };
    },
  };
}

const NAMES: QueueAttributeName[] = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'];

export interface LoadOptions {
  readonly sqs: SQSClient;
  /** One for each shard; they take turns. */
  readonly queueUrls: readonly string[];
  /** The model whose samples are sent at first. */
  readonly model: string;
  /** Texts of requests. */
  readonly samplesOf: (model: string) => readonly string[];
  /** Messages that wait on the queues. */
  readonly waiting: () => number;
  readonly onSent: (messages: number) => void;
  /** It sends less than it was told to, or no longer does. */
  readonly onChange: () => void;
}

/** Sends samples of a model at a steady rate, through SQS as everybody does. */
export interface Load {
  set(perSecond: number, model: string): void;
  seen(): LoadSeen;
  /** Sends nothing more, and resolves when what is under way has been sent. */
  stop(): Promise<void>;
}

/** Messages a second. */
const LOAD_PER_SECOND: Range = { min: 0, max: 5_000 };

const TURN_MS = 20;
const MAX_ENTRIES = 10;
const MAX_CALLS = 16;
/** The queue is in this process' memory. */
const MAX_WAITING = 20_000;

export function createLoad({ sqs, queueUrls, model, samplesOf, waiting, onSent, onChange }: LoadOptions): Load {
  let settings: LoadSeen = { perSecond: 0, model };
  let timer: NodeJS.Timeout | undefined;
  let turnedAt = 0;
  let owed = 0;
  let nextSample = 0;
  let nextQueue = 0;
  const calls = new Set<Promise<void>>();

  const turn = (): void => {
    const now = performance.now();
    const { perSecond } = settings;
    owed += (perSecond * (now - turnedAt)) / 1000;
    turnedAt = now;
    const isFull = waiting() > MAX_WAITING;
    if (isFull) owed = 0;
    const fallsBehind = owed > perSecond + 1;
    if (fallsBehind) owed = perSecond;
    hold(isFull ? 'full' : fallsBehind ? 'slow' : undefined);
    while (owed >= 1 && calls.size < MAX_CALLS) {
      const messages = Math.min(MAX_ENTRIES, Math.floor(owed));
      owed -= messages;
      const call = send(messages).finally(() => calls.delete(call));
      calls.add(call);
    }
  };
  const send = async (messages: number): Promise<void> => {
    const samples = samplesOf(settings.model);
    const Entries = Array.from({ length: messages }, (_, index) => ({
      Id: String(index),
      MessageBody: samples[nextSample++ % samples.length],
      MessageAttributes: ownAttributes('load'),
    }));
    const QueueUrl = queueUrls[nextQueue++ % queueUrls.length];
    try {
      const { Successful = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
      onSent(Successful.length);
    } catch (error) {
      stopTurns();
      settings = { ...settings, perSecond: 0, heldBack: `sending failed: ${messageOf(error)}` };
      onChange();
    }
  };
  let heldUntil = 0;
  const hold = (why: keyof typeof HELD_BACK | undefined): void => {
    const now = performance.now();
    if (why === undefined && now < heldUntil) return;
    if (why !== undefined) heldUntil = now + HOLD_SHOWN_MS;
    const heldBack = why && HELD_BACK[why];
    if (heldBack === settings.heldBack) return;
    settings = { ...settings, heldBack };
    onChange();
  };
  const stopTurns = (): void => {
    clearInterval(timer);
    timer = undefined;
    owed = 0;
  };
  return {
    set(perSecond, ofModel) {
      settings = { perSecond, model: ofModel };
      if (perSecond === 0) return stopTurns();
      if (timer !== undefined) return;
      turnedAt = performance.now();
      timer = setInterval(turn, TURN_MS);
    },
    seen: () => settings,
    async stop() {
      stopTurns();
      settings = { perSecond: 0, model: settings.model };
      await Promise.all(calls);
    },
  };
}

const HOLD_SHOWN_MS = 2_000;
const HELD_BACK = {
  full: `more than ${MAX_WAITING.toLocaleString('en-US')} messages wait, so no more are sent for now`,
  slow: 'this machine sends no faster',
} as const;
