import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  PurgeQueueCommand,
  type QueueAttributeName,
  SendMessageBatchCommand,
  SendMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { createQueueWriter } from '../../../lambda/aws/resultQueue.ts';
import { MAX_BATCH_ENTRIES } from '../../../lambda/aws/sendBatches.ts';
import { isFailure, messageOf } from '../../../lambda/core/failure.ts';
import { FILL, mappingProblems, outside, type Range } from '../../../lambda/core/limits.ts';
import { shapeInModel, type TensorSpec } from '../../../lambda/core/model.ts';
import { findModels, type ModelLocation } from '../../../lambda/onnx/findModels.ts';
import { readModelConfig } from '../../../lambda/onnx/modelConfig.ts';
import { readSampleLines } from '../../../lambda/onnx/probes.ts';
import type { DescribedModel } from '../../../lambda/scorer/frames.ts';
import type { Scorer } from '../../../lambda/scorer/scorer.ts';
import { sampleRequests } from '../../inspect/inspectModel.ts';
import type { EventSourceMapping, GatherLimits } from '../localMapping.ts';
import { type LocalQueues, localSqsClient } from '../localServices.ts';
import { type Batching, type LocalStack, type LocalStackOptions, startLocalStack } from '../localStack.ts';
import { createMonitor, type Monitor, ownAttributes } from './pageMonitor.ts';
import { type Control, createStream, type PageServer, startPageServer } from './pageServer.ts';
import type { JobSeen, LoadSeen, ModelSeen, QueuesSeen, State, TensorSeen } from './wire.ts';

interface ServePageOptions extends Omit<LocalStackOptions, 'through' | 'announce'> {
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
export async function servePage({ batching, ...options }: ServePageOptions): Promise<ServedPage> {
  const monitor = createMonitor();
  const telemetry = monitor.alsoTelling(options.telemetry);
  const stack = await startLocalStack({
    ...options,
    telemetry,
    through: monitor.through,
    async announce(announcements) {
      monitor.announced(announcements);
      for (const one of announcements) options.warn(`event: ${JSON.stringify(one)}`);
    },
  });
  const mapping = startChangeableMapping(stack, monitor, batching);
  const stop = async (): Promise<void> => {
    await mapping.stop();
    await stack.stop();
  };
  try {
    const page = await startPage({ ...options, stack, mapping, monitor });
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

/** A mapping that another takes the place of. Its polls are waited for: the local server hands messages to dead ones too. */
function startChangeableMapping(stack: LocalStack, monitor: Monitor, batching: Batching) {
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
    /** As they were set last. */
    limits: () => limits,
    /** Gathers by another size and window, that AWS would take. Resolves once open batches are handed over as they are. */
    async change(wanted: GatherLimits): Promise<void> {
      limits = wanted;
      changed = changed.then(replace);
      await changed;
    },
    async stop(): Promise<void> {
      await changed;
      await current.stop();
    },
  };
}

interface PageOptions extends Pick<ServePageOptions, 'modelsDirectory' | 'pagePort' | 'warn'> {
  readonly stack: LocalStack;
  readonly mapping: ReturnType<typeof startChangeableMapping>;
  readonly monitor: Monitor;
}

const TICK_MS = 1_000;
const TAKE_AWAY_MS = 5_000;

/** Serves a page that shows what a stack does, and does something with it. @throws Error when its port is taken */
async function startPage({ stack, mapping, monitor, ...options }: PageOptions): Promise<PageServer> {
  const { queues } = stack;
  const sqs = localSqsClient(queues);
  const ownResults = await createOwnResults(stack);
  const models = await lookAtModels(stack, options.modelsDirectory);
  const names = [...new Set(stack.models.map(({ name }) => name))];
  const loadModels = names.filter((name) => models.samplesOf(name).length > 0);
  let lying: QueuesSeen | undefined;
  let jobs: readonly JobSeen[] = [];
  const load = createLoad({
    sqs,
    queueUrls: queues.requestQueues.map(({ queueUrl }) => queueUrl),
    model: loadModels[0] ?? '',
    samplesOf: models.samplesOf,
    waiting: () => lying?.waiting ?? 0,
    onSent: monitor.sent,
  });
  const state = (): State => ({
    ...{ models: models.all(), jobs, endpoint: queues.endpoint, loadModels },
    settings: { ...mapping.limits(), load: load.seen() },
    queues: lying,
    ...monitor.seen(),
  });
  const tellState = (): void => stream.tell('state', state());
  const every = (ms: number, act: () => Promise<void>): NodeJS.Timeout =>
    setInterval(() => void act().catch((error: unknown) => options.warn(`page: ${messageOf(error)}`)), ms);
  const takingAway = every(TAKE_AWAY_MS, ownResults.takeAway);
  let ticking: NodeJS.Timeout | undefined;
  const stream = createStream({
    onWatched(isWatched) {
      clearInterval(ticking);
      if (!isWatched) return void load.stop();
      ticking = every(TICK_MS, async () => {
        [lying, jobs] = await Promise.all([lookAtQueues(sqs, queues), lookAtJobs(stack)]);
        tellState();
      });
    },
  });
  monitor.connect(ownResults.writer, (answer) => stream.tell('answer', answer));
  const isWatched = stream.isWatched;
  const controls = createControls({ sqs, stack, mapping, monitor, load, loadModels, isWatched, tellState });
  const close = async (): Promise<void> => {
    stream.close();
    clearInterval(takingAway);
    await load.stop();
    sqs.destroy();
  };
  try {
    const server = await startPageServer({
      port: options.pagePort,
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

interface Controlled extends Pick<PageOptions, 'stack' | 'mapping' | 'monitor'> {
  readonly sqs: SQSClient;
  readonly load: Load;
  readonly loadModels: readonly string[];
  readonly isWatched: () => boolean;
  readonly tellState: () => void;
}

const BATCHING = z.strictObject({ batchSize: z.int(), windowSeconds: z.int() });
const LOAD = z.strictObject({ perSecond: z.int(), model: z.string().max(256) });
const ASK = z.strictObject({ body: z.string().min(1).max(60_000) });
const CANCEL = z.strictObject({ job: z.string().max(256) });

/** What the page may do, by path. */
function createControls({ mapping, load, ...deps }: Controlled): Record<string, Control> {
  const { sqs, stack, monitor, loadModels, isWatched, tellState } = deps;
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
      const asked = { QueueUrl: stack.queues.requestQueueUrl, MessageBody, MessageAttributes: ownAttributes('ask') };
      const { MessageId } = await sqs.send(new SendMessageCommand(asked));
      monitor.sent(1);
      return { messageId: MessageId };
    },
    async '/cancel'(body) {
      const { job } = parsed(CANCEL, body, '{"job": …}, the name of a job');
      await stack.jobControl?.cancel(job);
      return { job };
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
async function lookAtModels({ models, scorer }: Pick<LocalStack, 'models' | 'scorer'>, modelsDirectory: string) {
  const samples = new Map<string, Samples>();
  const found: DescribedModel[] = [];
  const locations = findModels(modelsDirectory);
  for (const { name, version } of models) {
    const model = await scorer.find(name, version);
    if (isFailure(model)) continue;
    found.push(model);
    const location = locations.find((one) => one.name === name && one.version === version);
    if (location !== undefined && !samples.has(name)) samples.set(name, await samplesFor(model, location, scorer));
  }
  const samplesOf = (name: string): readonly string[] => samples.get(name)?.texts ?? [];
  return {
    /** Texts of requests of a model; none where it has no samples. */
    samplesOf,
    all: (): ModelSeen[] =>
      found.map((model) => ({
        ...seenOf(model),
        sample: samplesOf(model.name)[0],
        noSample: samples.get(model.name)?.none,
      })),
  };
}

interface Samples {
  readonly texts: readonly string[];
  /** Why there are none. */
  readonly none?: string | undefined;
}

/** Requests that the model answers: those of its `samples.jsonl`, else made-up ones. */
async function samplesFor(model: DescribedModel, { path, folder }: ModelLocation, { score }: Scorer): Promise<Samples> {
  const { warmup } = readModelConfig(folder);
  const lines = await readSampleLines(folder);
  const { samples, noSample } = await sampleRequests(model, score, lines, path, warmup);
  const texts = samples.map(({ json }) => json).filter((text) => text.length <= MAX_SAMPLE_CHARACTERS);
  return { texts, none: texts.length > 0 ? undefined : (noSample ?? 'its samples are too long for a message') };
}

function seenOf(model: DescribedModel): ModelSeen {
  const { name, version, batching, maxBatchRows, allowedSizes, evidence = '' } = model;
  return {
    ...{ name, version, evidence, batching, maxBatchRows, allowedSizes },
    inputs: model.inputs.map(tensorOf),
    outputs: model.outputs.map(tensorOf),
    raggedAxis: model.ragged?.name,
    hasTransform: model.transform !== undefined,
  };
}

/** An axis that the exporter gave no name has one here that repeats its tensor's: on the page it is short. */
function tensorOf(spec: TensorSpec): TensorSeen {
  const shape = spec.shape.map((dim, axis) => {
    if (!String(dim).startsWith(`${spec.name} axis `)) return dim;
    return axis === 0 ? 'rows' : '?';
  });
  return { name: spec.name, datatype: spec.datatype, shape: shapeInModel(spec, shape) };
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

async function lookAtJobs({ jobControl }: Pick<LocalStack, 'jobControl'>): Promise<JobSeen[]> {
  const jobs = (await jobControl?.newest()) ?? [];
  return jobs.map(({ failedParts = [], ...job }) => ({ ...job, givenUp: failedParts.length }));
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
export type Load = ReturnType<typeof createLoad>;

/** Messages a second. */
const LOAD_PER_SECOND: Range = { min: 0, max: 5_000 };

const TURN_MS = 20;
const MAX_CALLS = 16;
/** The queue is in this process' memory. */
const MAX_WAITING = 20_000;
const FULL = `more than ${MAX_WAITING.toLocaleString('en-US')} messages wait, so no more are sent for now`;
const SLOW = 'this machine sends no faster';

export function createLoad({ sqs, queueUrls, model, samplesOf, waiting, onSent }: LoadOptions) {
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
    /** Sends nothing more, and resolves when what is under way has been sent. */
    async stop(): Promise<void> {
      set(0, settings.model);
      await Promise.all(calls);
    },
  };
}
