import { statSync } from 'node:fs';
import { join } from 'node:path';
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
import { deployedFiles, isForPeople, walkModels } from '../../lambda/onnx/findModels.ts';
import { sampleRequests } from '../inspect/inspectModel.ts';
import type { EventSourceMapping } from '../local/localMapping.ts';
import type { LocalQueues } from '../local/localServices.ts';
import { type Batching, type LocalStack, type LocalStackOptions, startLocalStack } from '../local/localStack.ts';
import { createMonitor, type Monitor, OWN_ATTRIBUTES } from './pageMonitor.ts';
import { type Control, type PageServer, startPageServer } from './pageServer.ts';
import type { ModelSeen, QueuesSeen, State, TensorSeen } from './wire.ts';

interface ServePageOptions extends Omit<LocalStackOptions, 'through' | 'announce' | 'warnOfModels'> {
  readonly batching: Batching;
  /** Port of the page on 127.0.0.1. @default the port after `port`, or a free one if that is taken */
  readonly pagePort?: number | undefined;
}

/**
 * Starts the local stack with its event source mapping, serves the page that shows it, and loads the models again when
 * their files change.
 */
export async function servePage({ batching, ...options }: ServePageOptions) {
  const monitor = createMonitor();
  const models = createShownModels(options.modelsDirectory, options.warn);
  const stack = await startLocalStack({
    ...options,
    warnOfModels: models.warn,
    telemetry: monitor.alsoTelling(options.telemetry),
    through: monitor.through,
    async announce(announcements) {
      for (const one of announcements) options.warn(`event: ${JSON.stringify(one)}`);
    },
  });
  let mapping: EventSourceMapping | undefined;
  let page: PageServer | undefined;
  /** Finishes the received messages, including model runs, and stops. */
  const stop = async (): Promise<void> => {
    await models.stop();
    await page?.close();
    await mapping?.stop();
    await stack.stop();
  };
  try {
    await models.show(stack);
    mapping = stack.startMapping({ ...batching, around: monitor.around(batching.batchSize) });
    page = await startPageServer({
      port: options.pagePort,
      preferredPort: (Number(new URL(stack.queues.endpoint).port) + 1) % 65_536,
      controls: createControls(stack, batching, monitor, models.seen),
    });
    models.follow(stack);
    return { stack, page: page.url, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const MAX_TIMES = 1_000;
const ASK = z.strictObject({ body: z.string().min(1).max(60_000), times: z.int().min(1).max(MAX_TIMES) });
const LOOK = z.strictObject({ awaited: z.string().max(256).default('') });

function createControls(
  stack: LocalStack,
  { batchSize, windowSeconds }: Batching,
  monitor: Monitor,
  models: () => Pick<State, 'models' | 'warnings'>,
): Record<string, Control> {
  const { sqs, queues } = stack;
  const { endpoint, requestQueueUrl } = queues;
  return {
    async '/state'(asked): Promise<State> {
      const { awaited } = parsed(LOOK, asked, '{"awaited": …}, the ID of a message');
      const [lying, newest = []] = await Promise.all([lookAtQueues(sqs, queues), stack.jobControl?.newest()]);
      const jobs = newest.map(({ failedParts = [], ...job }) => ({ ...job, givenUp: failedParts.length }));
      const settings = { endpoint, batchSize, windowSeconds };
      return { ...settings, ...models(), jobs, queues: lying, ...monitor.seen(), awaited: monitor.find(awaited) };
    },
    async '/ask'(asked) {
      const expected = `{"body": …, "times": …}, a text of 1 to 60,000 characters and 1 to ${MAX_TIMES}`;
      const { body, times } = parsed(ASK, asked, expected);
      return { messageId: await send(sqs, requestQueueUrl, body, times) };
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
      MessageAttributes: OWN_ATTRIBUTES,
    }));
    const { Successful = [], Failed = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
    if (Failed.length > 0) throw new Error(`expected SQS to take the message, got: ${Failed[0]?.Message}`);
    last = Successful.find(({ Id }) => Id === String(left - 1))?.MessageId;
  }
  return last;
}

const FOLLOW_MS = 1_000;

/** Creates the view of the models, and reloads them when their files change. */
function createShownModels(directory: string, say: (message: string) => void) {
  let models: readonly ModelSeen[] = [];
  let warnings: string[] = [];
  let following: NodeJS.Timeout | undefined;
  let reloading = Promise.resolve();

  /** Each process of the scorer opens the models, and tells the same of them. */
  const warn = (message: string): void => {
    if (warnings.includes(message)) return;
    warnings.push(message);
    say(message);
  };
  const show = async (stack: LocalStack): Promise<void> => {
    models = await lookAtModels(stack, directory, warn);
  };
  const reload = async (stack: LocalStack): Promise<void> => {
    const before = warnings;
    warnings = [];
    try {
      await stack.reload();
      await show(stack);
      say(
        `models changed, and are loaded again: ${models.map(({ name, version }) => `${name}/${version}`).join(', ')}`,
      );
    } catch (error) {
      warnings = before;
      warn(`models changed, and those from before are served: ${messageOf(error)}`);
    }
  };
  return {
    warn,
    show,
    seen: () => ({ models, warnings }),
    /** Looks at the files each second. It reloads them when they have changed and stayed equal for a second. */
    follow(stack: LocalStack): void {
      let [served, before] = [stampOf(directory), stampOf(directory)];
      const look = async (): Promise<void> => {
        const stamp = stampOf(directory);
        if (stamp !== served && stamp === before) {
          served = stamp;
          reloading = reload(stack);
          await reloading;
        }
        before = stamp;
        following?.refresh();
      };
      following = setTimeout(() => void look(), FOLLOW_MS).unref();
    },
    async stop(): Promise<void> {
      clearTimeout(following);
      following = undefined;
      await reloading;
    },
  };
}

/** Returns a text that changes with the files of the repository that a host reads. */
function stampOf(directory: string): string {
  try {
    const files = deployedFiles(directory).filter((file) => !isForPeople(file));
    const stamps = files.map((file) => {
      const { mtimeMs, size } = statSync(join(directory, file));
      return `${file} ${mtimeMs} ${size}`;
    });
    return [...walkModels(directory).map(({ name }) => name), ...stamps].join('\n');
  } catch (error) {
    return messageOf(error);
  }
}

const MAX_SAMPLE_CHARACTERS = 32_768;

/** Returns each model in its default version, with a request that it answers. @param warn takes why it has none */
async function lookAtModels(
  { scorer }: Pick<LocalStack, 'scorer'>,
  directory: string,
  warn: (message: string) => void,
): Promise<ModelSeen[]> {
  const folders = walkModels(directory);
  const found: ModelSeen[] = [];
  for (const { name, version } of scorer.models) {
    const { folder = '', versions = [] } = folders.find((one) => one.name === name) ?? {};
    const path = versions.find((one) => one.version === version)?.path;
    const model = await scorer.find(name, version);
    if (isFailure(model) || path === undefined || found.some((one) => one.name === name)) continue;
    const { samples, noSample = 'its samples are too long for a message' } = await sampleRequests(
      model,
      scorer.score,
      path,
      folder,
    );
    const sample = samples.map(({ json }) => json).find((text) => text.length <= MAX_SAMPLE_CHARACTERS);
    if (sample === undefined) warn(`${name}: the page has no form for it: ${noSample}`);
    const inputs = model.inputs.map(tensorOf);
    found.push({ name, version, inputs, hasTransform: model.transform !== undefined, sample });
  }
  return found;
}

/** Describes a tensor. Models name an unnamed axis after its tensor, and the page shows a shorter name. */
function tensorOf(spec: TensorSpec): TensorSeen {
  const shape = spec.shape.map((dim, axis) => {
    if (!String(dim).startsWith(`${spec.name} axis `)) return dim;
    return axis === 0 ? 'rows' : '?';
  });
  return { name: spec.name, datatype: spec.datatype, shape: shapeInModel(spec, shape) };
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
    ...[...queues.requestQueues, queues.urgentQueue ?? []].flat().map(({ queueUrl }) => countsOf(queueUrl)),
  ]);
  return {
    waiting: requests.reduce((sum, one) => sum + one.waiting, 0),
    inFlight: requests.reduce((sum, one) => sum + one.inFlight, 0),
    deadLetters: deadLetters.waiting,
  };
}
