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
import { MAX_BATCH_ENTRIES } from '../../../lambda/aws/sendBatches.ts';
import { isFailure, messageOf } from '../../../lambda/core/failure.ts';
import { isObject } from '../../../lambda/core/json.ts';
import { FILL, mappingProblems, outside, type Range } from '../../../lambda/core/limits.ts';
import { type Model, shapeInModel, type TensorSpec } from '../../../lambda/core/model.ts';
import { readSampleLines } from '../../../lambda/onnx/probes.ts';
import type { EventSourceMapping, GatherLimits } from '../localMapping.ts';
import { type LocalQueues, localSqsClient } from '../localServices.ts';
import { type Batching, type LocalStack, type LocalStackOptions, startLocalStack } from '../localStack.ts';
import { createMonitor, type Monitor, ownAttributes } from './pageMonitor.ts';
import { type Control, createStream, type PageServer, startPageServer } from './pageServer.ts';
import type { LoadSeen, ModelSeen, QueuesSeen, State, TensorSeen } from './wire.ts';

interface ServePageOptions extends Omit<LocalStackOptions, 'through'> {
  readonly batching: Batching;
  /** Of the page, on 127.0.0.1. @default the one after `port`, or any where that is taken */
  readonly pagePort?: number | undefined;
}

interface ServedPage {
  readonly stack: LocalStack;
  /** URL of the page. */
  readonly page: string;
  /** Finishes what was received, runs of models included. */
  stop(): Promise<void>;
}

/** Starts the local stack, hands messages to its function, and serves the page that shows it. */
export async function servePage({ batching, pagePort, ...options }: ServePageOptions): Promise<ServedPage> {
  const monitor = createMonitor();
  const telemetry = monitor.alsoTelling(options.telemetry);
  const stack = await startLocalStack({ ...options, telemetry, through: monitor.through });
  const mapping = startChangeableMapping(stack, monitor, batching);
  const stop = async (): Promise<void> => {
    await mapping.stop();
    await stack.stop();
  };
  try {
    const page = await startPage({ ...options, stack, mapping, monitor, port: pagePort });
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

interface ChangeableMapping {
  /** As they were set last. */
  limits(): GatherLimits;
  /** Gathers by another size and window, that AWS would take. Resolves once open batches are handed over as they are. */
  change(limits: GatherLimits): Promise<void>;
  stop(): Promise<void>;
}

/** A mapping that another takes the place of. Its polls are waited for: the local server hands messages to dead ones too. */
function startChangeableMapping(stack: LocalStack, monitor: Monitor, batching: Batching): ChangeableMapping {
  const start = (limits: GatherLimits): EventSourceMapping =>
    stack.startMapping({ ...batching, ...limits, around: monitor.around(limits.batchSize) });
  let limits: GatherLimits = batching;
  let current = start(limits);
  let changed = Promise.resolve();
  const replace = async (): Promise<void> => {
    await current.stop();
    current = start(limits);
  };
  return {
    limits: () => limits,
    async change(wanted) {
      limits = wanted;
      changed = changed.then(replace);
      await changed;
    },
    async stop() {
      await changed;
      await current.stop();
    },
  };
}

interface PageOptions {
  readonly stack: LocalStack;
  readonly mapping: ChangeableMapping;
  readonly monitor: Monitor;
  readonly modelsDirectory: string;
  /** On 127.0.0.1. @default the one after the queues', or any where that is taken */
  readonly port?: number | undefined;
  /** Told what went wrong. */
  readonly warn: (message: string) => void;
}

const TICK_MS = 1_000;
const TAKE_AWAY_MS = 5_000;

/** Serves a page that shows what a stack does, and does something with it. @throws Error when its port is taken */
async function startPage({ stack, mapping, monitor, modelsDirectory, port, warn }: PageOptions): Promise<PageServer> {
  const { queues } = stack;
  const sqs = localSqsClient(queues);
  const ownResults = await createOwnResults(stack);
  const models = await lookAtModels(stack, modelsDirectory);
  const names = [...new Set(stack.models.map(({ name }) => name))];
  const loadModels = names.filter((name) => models.samplesOf(name).length > 0);
  let lying: QueuesSeen | undefined;
  const load = createLoad({
    sqs,
    queueUrls: queues.requestQueues.map(({ queueUrl }) => queueUrl),
    model: loadModels[0] ?? '',
    samplesOf: models.samplesOf,
    waiting: () => lying?.waiting ?? 0,
    onSent: monitor.sent,
  });
  const state = (): State => ({
    models: models.all(),
    loadModels,
    settings: { ...mapping.limits(), load: load.seen() },
    queues: lying,
    ...monitor.seen(),
  });
  const tellState = (): void => stream.tell('state', state());
  const every = (ms: number, act: () => Promise<void>): NodeJS.Timeout =>
    setInterval(() => void act().catch((error: unknown) => warn(`page: ${messageOf(error)}`)), ms);
  const takingAway = every(TAKE_AWAY_MS, ownResults.takeAway);
  let ticking: NodeJS.Timeout | undefined;
  const stream = createStream({
    onWatched(isWatched) {
      clearInterval(ticking);
      if (!isWatched) return void load.stop();
      ticking = every(TICK_MS, async () => {
        lying = await lookAtQueues(sqs, queues);
        tellState();
      });
    },
  });
  monitor.connect(ownResults.writer, (answer) => stream.tell('answer', answer));
  const isWatched = stream.isWatched;
  const controls = createControls({ sqs, queues, mapping, monitor, load, loadModels, isWatched, tellState });
  const close = async (): Promise<void> => {
    stream.close();
    clearInterval(takingAway);
    await load.stop();
    sqs.destroy();
  };
  try {
    const server = await startPageServer({
      port,
      preferredPort: (Number(new URL(queues.endpoint).port) + 1) % 65_536,
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

interface Controlled extends Pick<PageOptions, 'mapping' | 'monitor'> {
  readonly sqs: SQSClient;
  readonly queues: LocalQueues;
  readonly load: Load;
  /** Models whose samples may be sent. */
  readonly loadModels: readonly string[];
  readonly isWatched: () => boolean;
  readonly tellState: () => void;
}

const BATCHING = z.strictObject({ batchSize: z.int(), windowSeconds: z.int() });
const LOAD = z.strictObject({ perSecond: z.int(), model: z.string().max(256) });
const ASK = z.strictObject({ body: z.string().min(1).max(60_000) });

/** What the page may do, by path. */
function createControls({ mapping, load, ...deps }: Controlled): Record<string, Control> {
  const { sqs, queues, monitor, loadModels, isWatched, tellState } = deps;
  return {
    async '/batching'(body) {
      const limits = parsed(BATCHING, body, '{"batchSize": …, "windowSeconds": …}, both whole numbers');
      const problems = mappingProblems({ ...limits, fifo: false });
      if (problems.length > 0) throw new Error(problems.join('; '));
      const changed = mapping.change(limits);
      tellState();
      await changed;
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
      if (!isWatched()) throw new Error('load: expected a page that is open, got none; open the page first');
      load.set(perSecond, model);
      tellState();
      return { perSecond, model };
    },
    async '/ask'(body) {
      const { body: MessageBody } = parsed(ASK, body, '{"body": …}, a text of 1 to 60,000 characters');
      const asked = { QueueUrl: queues.requestQueueUrl, MessageBody, MessageAttributes: ownAttributes('ask') };
      const { MessageId } = await sqs.send(new SendMessageCommand(asked));
      monitor.sent(1);
      return { messageId: MessageId };
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
      return isObject(request) ? [JSON.stringify({ model_name: name, ...request })] : [];
    });
}

function seenOf(model: Model, batching: ModelSeen['batching'], sample: string | undefined): ModelSeen {
  const { name, version, maxBatchRows, allowedSizes, independence = 'trusted' } = model;
  return {
    ...{ name, version, independence, batching, maxBatchRows, allowedSizes, sample },
    inputs: model.inputs.map(tensorOf),
    outputs: model.outputs.map(tensorOf),
    raggedAxis: model.ragged?.name,
    hasTransform: model.transform !== undefined,
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
  return {
    writer: createQueueWriter({ sqs, queueUrl, packing: { results, bytes } }),
    /** Takes away what was written: nobody receives it. */
    takeAway: async () => void (await sqs.send(new PurgeQueueCommand({ QueueUrl: queueUrl }))),
  };
}

const COUNTS: QueueAttributeName[] = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'];

/** Asks how much lies on the queues. Exported for tests. */
export async function lookAtQueues(sqs: SQSClient, queues: LocalQueues): Promise<QueuesSeen> {
  const countsOf = async (QueueUrl: string): Promise<{ waiting: number; inFlight: number }> => {
    const { Attributes = {} } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: COUNTS }));
    const { ApproximateNumberOfMessages: waiting, ApproximateNumberOfMessagesNotVisible: inFlight } = Attributes;
    return { waiting: Number(waiting), inFlight: Number(inFlight) };
  };
  const [deadLetters, results, ...requests] = await Promise.all([
    countsOf(queues.deadLetterQueueUrl),
    countsOf(queues.resultQueueUrl),
    ...queues.requestQueues.map(({ queueUrl }) => countsOf(queueUrl)),
  ]);
  return {
    waiting: requests.reduce((sum, one) => sum + one.waiting, 0),
    inFlight: requests.reduce((sum, one) => sum + one.inFlight, 0),
    deadLetters: deadLetters.waiting,
    results: results.waiting + results.inFlight,
  };
}

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
const MAX_CALLS = 16;
/** The queue is in this process' memory. */
const MAX_WAITING = 20_000;
const FULL = `more than ${MAX_WAITING.toLocaleString('en-US')} messages wait, so no more are sent for now`;
const SLOW = 'this machine sends no faster';

export function createLoad({ sqs, queueUrls, model, samplesOf, waiting, onSent }: LoadOptions): Load {
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
    const isFull = waiting() > MAX_WAITING;
    // A second's messages at the most: what was not sent by then never is.
    owed = isFull ? 0 : Math.min(perSecond, owed + (perSecond * (now - turnedAt)) / 1000);
    turnedAt = now;
    while (owed >= 1 && calls.size < MAX_CALLS) {
      const messages = Math.min(MAX_BATCH_ENTRIES, Math.floor(owed));
      owed -= messages;
      const call = send(messages).finally(() => calls.delete(call));
      calls.add(call);
    }
    settings = { ...settings, heldBack: isFull ? FULL : owed > perSecond / 2 && owed >= 1 ? SLOW : undefined };
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
      clearInterval(timer);
      settings = { ...settings, perSecond: 0, heldBack: `sending failed: ${messageOf(error)}` };
    }
  };
  const set = (perSecond: number, ofModel: string): void => {
    clearInterval(timer);
    settings = { perSecond, model: ofModel };
    owed = 0;
    turnedAt = performance.now();
    if (perSecond > 0) timer = setInterval(turn, TURN_MS);
  };
  return {
    set,
    seen: () => settings,
    async stop() {
      set(0, settings.model);
      await Promise.all(calls);
    },
  };
}
