import {
  GetQueueAttributesCommand,
  type QueueAttributeName,
  SendMessageBatchCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { MAX_BATCH_ENTRIES } from '../../lambda/aws/sqsMessages.ts';
import { isFailure, messageOf } from '../../lambda/core/failure.ts';
import { shapeInModel, type TensorSpec } from '../../lambda/core/model.ts';
import { findModels } from '../../lambda/onnx/findModels.ts';
import { readModelConfig } from '../../lambda/onnx/modelConfig.ts';
import { readSampleLines } from '../../lambda/onnx/probes.ts';
import type { DescribedModel } from '../../lambda/scorer/frames.ts';
import { sampleRequests } from '../inspect/inspectModel.ts';
import { type LocalQueues, localSqsClient } from '../local/localServices.ts';
import { type Batching, type LocalStack, type LocalStackOptions, startLocalStack } from '../local/localStack.ts';
import { createMonitor, type Monitor, ownAttributes } from './pageMonitor.ts';
import { type Control, createStream, type PageServer, startPageServer } from './pageServer.ts';
import type { JobSeen, ModelSeen, QueuesSeen, State, TensorSeen } from './wire.ts';

interface ServePageOptions extends Omit<LocalStackOptions, 'through' | 'announce'> {
  readonly batching: Batching;
  /** Port of the page on 127.0.0.1. @default the port after `port`, or a free one if that is taken */
  readonly pagePort?: number | undefined;
}

interface ServedPage {
  readonly stack: LocalStack;
  readonly page: string;
  /** Finishes the received messages, including model runs, and stops. */
  stop(): Promise<void>;
}

/** Starts the local stack with its event source mapping, and serves the page that shows it. */
export async function servePage({ batching, ...options }: ServePageOptions): Promise<ServedPage> {
  const monitor = createMonitor();
  const stack = await startLocalStack({
    ...options,
    telemetry: monitor.alsoTelling(options.telemetry),
    through: monitor.through,
    async announce(announcements) {
      for (const one of announcements) options.warn(`event: ${JSON.stringify(one)}`);
    },
  });
  const mapping = stack.startMapping({ ...batching, around: monitor.around(batching.batchSize) });
  const stop = async (): Promise<void> => {
    await mapping.stop();
    await stack.stop();
  };
  try {
    const page = await startPage({ ...options, batching, stack, monitor });
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

interface PageOptions extends Pick<ServePageOptions, 'batching' | 'modelsDirectory' | 'pagePort' | 'warn'> {
  readonly stack: LocalStack;
  readonly monitor: Monitor;
}

const TICK_MS = 1_000;

/** Serves a page that shows the activity of a stack and sends it messages. @throws Error if its port is taken */
async function startPage({ stack, batching, monitor, ...options }: PageOptions): Promise<PageServer> {
  const { queues } = stack;
  const { batchSize, windowSeconds } = batching;
  const sqs = localSqsClient(queues);
  const models = await lookAtModels(stack, options.modelsDirectory);
  let lying: QueuesSeen | undefined;
  let jobs: readonly JobSeen[] = [];
  const state = (): State => ({
    ...{ models, jobs, endpoint: queues.endpoint, batchSize, windowSeconds, queues: lying },
    ...monitor.seen(),
  });
  const tick = async (): Promise<void> => {
    [lying, jobs] = await Promise.all([lookAtQueues(sqs, queues), lookAtJobs(stack)]);
    stream.tell('state', state());
  };
  let ticking: NodeJS.Timeout | undefined;
  const stream = createStream({
    onWatched(isWatched) {
      clearInterval(ticking);
      const failed = (error: unknown): void => options.warn(`page: ${messageOf(error)}`);
      if (isWatched) ticking = setInterval(() => void tick().catch(failed), TICK_MS);
    },
  });
  monitor.onAnswer((answer) => stream.tell('answer', answer));
  const close = (): void => {
    stream.close();
    sqs.destroy();
  };
  try {
    const server = await startPageServer({
      port: options.pagePort,
      preferredPort: (Number(new URL(queues.endpoint).port) + 1) % 65_536,
      openStream: (response) => stream.open(response, state()),
      controls: createControls(stack, sqs),
    });
    return {
      url: server.url,
      async close() {
        close();
        await server.close();
      },
    };
  } catch (error) {
    close();
    throw error;
  }
}

const MAX_TIMES = 1_000;
const ASK = z.strictObject({ body: z.string().min(1).max(60_000), times: z.int().min(1).max(MAX_TIMES) });
const CANCEL = z.strictObject({ job: z.string().max(256) });

function createControls(stack: LocalStack, sqs: SQSClient): Record<string, Control> {
  return {
    async '/ask'(asked) {
      const { body, times } = parsed(
        ASK,
        asked,
        `{"body": …, "times": …}, a text of 1 to 60,000 characters and 1 to ${MAX_TIMES}`,
      );
      return { messageId: await send(sqs, stack.queues.requestQueueUrl, body, times) };
    },
    async '/cancel'(asked) {
      const { job } = parsed(CANCEL, asked, '{"job": …}, the name of a job');
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

/** Sends a message `times` times through SQS. @returns the ID of the last one, whose answer the page shows */
async function send(sqs: SQSClient, QueueUrl: string, MessageBody: string, times: number): Promise<string | undefined> {
  let last: string | undefined;
  for (let left = times; left > 0; left -= MAX_BATCH_ENTRIES) {
    const Entries = Array.from({ length: Math.min(left, MAX_BATCH_ENTRIES) }, (_, index) => ({
      Id: String(index),
      MessageBody,
      MessageAttributes: ownAttributes(index === left - 1 ? 'ask' : 'fill'),
    }));
    const { Successful = [], Failed = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
    if (Failed.length > 0) throw new Error(`expected SQS to take the message, got: ${Failed[0]?.Message}`);
    last = Successful.find(({ Id }) => Id === String(left - 1))?.MessageId;
  }
  return last;
}

const MAX_SAMPLE_CHARACTERS = 32_768;

/** Returns the default version of each model, with a request that it answers. */
async function lookAtModels({ models, scorer }: Pick<LocalStack, 'models' | 'scorer'>, directory: string) {
  const locations = findModels(directory);
  const found: ModelSeen[] = [];
  for (const { name, version } of models) {
    const model = await scorer.find(name, version);
    const location = locations.find((one) => one.name === name && one.version === version);
    if (isFailure(model) || location === undefined || found.some((one) => one.name === name)) continue;
    const { path, folder } = location;
    const lines = await readSampleLines(folder);
    const { samples, noSample } = await sampleRequests(
      model,
      scorer.score,
      lines,
      path,
      readModelConfig(folder).warmup,
    );
    const sample = samples.map(({ json }) => json).find((text) => text.length <= MAX_SAMPLE_CHARACTERS);
    const none = noSample ?? 'its samples are too long for a message';
    found.push({ ...seenOf(model), sample, noSample: sample === undefined ? none : undefined });
  }
  return found;
}

function seenOf({ name, inputs, transform }: DescribedModel): ModelSeen {
  return { name, inputs: inputs.map(tensorOf), hasTransform: transform !== undefined };
}

/** Describes a tensor. Models name an unnamed axis after its tensor, and the page shows a shorter name. */
function tensorOf(spec: TensorSpec): TensorSeen {
  const shape = spec.shape.map((dim, axis) => {
    if (!String(dim).startsWith(`${spec.name} axis `)) return dim;
    return axis === 0 ? 'rows' : '?';
  });
  return { name: spec.name, datatype: spec.datatype, shape: shapeInModel(spec, shape) };
}

async function lookAtJobs({ jobControl }: Pick<LocalStack, 'jobControl'>): Promise<JobSeen[]> {
  const jobs = (await jobControl?.newest()) ?? [];
  return jobs.map(({ failedParts = [], ...job }) => ({ ...job, givenUp: failedParts.length }));
}

const COUNTS: QueueAttributeName[] = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'];

/** Returns the number of messages on the queues. Exported for tests. */
export async function lookAtQueues(sqs: SQSClient, queues: LocalQueues): Promise<QueuesSeen> {
  const countsOf = async (QueueUrl: string): Promise<{ waiting: number; inFlight: number }> => {
    const { Attributes = {} } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: COUNTS }));
    const { ApproximateNumberOfMessages: waiting, ApproximateNumberOfMessagesNotVisible: inFlight } = Attributes;
    return { waiting: Number(waiting), inFlight: Number(inFlight) };
  };
  const [deadLetters, ...requests] = await Promise.all([
    countsOf(queues.deadLetterQueueUrl),
    ...queues.requestQueues.map(({ queueUrl }) => countsOf(queueUrl)),
  ]);
  return {
    waiting: requests.reduce((sum, one) => sum + one.waiting, 0),
    inFlight: requests.reduce((sum, one) => sum + one.inFlight, 0),
    deadLetters: deadLetters.waiting,
  };
}
