import { afterEach, describe, expect, it } from '@jest/globals';
import { startEventSourceMapping } from '../../cli/local/localMapping.ts';
import { compose } from '../../lambda/hosts/compose.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { createHandler } from '../../lambda/hosts/createHandler.ts';
import { useDynamoDbServer } from '../helpers/dynamodbServer.ts';
import { answersJson, giveAnswer, refusesXml, type Step } from '../helpers/frontServer.ts';
import { recordingTelemetry } from '../helpers/handler.ts';
import { afterThisTest, modelsDirectory } from '../helpers/openModels.ts';
import { useS3Server } from '../helpers/s3Server.ts';
import { useSqsServer } from '../helpers/sqsServer.ts';
import { FAULTS, type Fault, nameOf, redrivePolicy, type StrictSqs, startStrictSqs } from '../helpers/strictSqs.ts';
import { LOOKUP, lookup } from '../helpers/worker.ts';
import { startWorkerProcess } from '../helpers/workerProcess.ts';

/** What a second of visibility takes here: an hour passes in 1.8 s. */
const SECOND_MS = 0.5;
const OUTAGE_SECONDS = 3_600;
/** Longer than a host has a message for, even here: 21.6 s. */
const VISIBILITY_SECONDS = '43200';
const MESSAGES = 40;

let sqs: StrictSqs;
const server = useSqsServer(async () => {
  sqs = await startStrictSqs(SECOND_MS);
  return sqs;
});
const dynamodb = useDynamoDbServer();
const s3 = useS3Server();

afterEach(() => sqs.intercept());

/** Answers `step` while it is so, and what is behind it afterwards. */
function during(isOut: () => boolean, step: Step): Step[] {
  return Array<Step>(20_000).fill((exchange) => (isOut() ? step(exchange) : giveAnswer(exchange)));
}

interface Outage {
  readonly isOut: () => boolean;
  /** Has calls to the result queue meet this meanwhile. */
  readonly resultQueueMeets: (fault: Fault) => void;
}

interface Taken {
  /** What the host is told besides. */
  readonly variables?: Readonly<Record<string, string>>;
  readonly bodies?: readonly string[];
}

/** Every store that a host needs, and how it is taken away. */
const OUTAGES: readonly (readonly [what: string, take: (outage: Outage) => Promise<Taken> | Taken])[] = [
  ['the result queue is missing', withoutResultQueue(FAULTS.missing)],
  [
    'the result table is missing',
    async ({ isOut }) => {
      const missing = {
        __type: 'com.amazonaws.dynamodb.v20120810#ResourceNotFoundException',
        message: 'no such table',
      };
      const front = await dynamodb.front(...during(isOut, answersJson(400, missing)));
      const table = await dynamodb.table();
      return {
        variables: {
          BATCHSCORE_RESULTS: 'table',
          BATCHSCORE_RESULT_TABLE: table,
          AWS_ENDPOINT_URL_DYNAMODB: front.endpoint,
        },
      };
    },
  ],
  [
    'the result bucket is denied',
    async ({ isOut }) => {
      const front = await s3.front(...during(isOut, refusesXml(403, 'AccessDenied')));
      const bucket = await s3.bucket();
      return {
        variables: {
          BATCHSCORE_RESULTS: 'bucket',
          BATCHSCORE_RESULT_BUCKET: bucket,
          AWS_ENDPOINT_URL_S3: front.endpoint,
        },
      };
    },
  ],
  [
    'the payload bucket is missing',
    async ({ isOut }) => {
      const front = await s3.front(...during(isOut, refusesXml(404, 'NoSuchBucket')));
      const bucket = await s3.bucket();
      const bodies: string[] = [];
      for (let index = 0; index < MESSAGES; index++) {
        await s3.put(bucket, `requests/${index}`, lookup(index));
        const pointer = { s3BucketName: bucket, s3Key: `requests/${index}` };
        bodies.push(JSON.stringify(['software.amazon.payloadoffloading.PayloadS3Pointer', pointer]));
      }
      return { variables: { BATCHSCORE_PAYLOAD_BUCKET: bucket, AWS_ENDPOINT_URL_S3: front.endpoint }, bodies };
    },
  ],
];

function withoutResultQueue(fault: Fault) {
  return ({ resultQueueMeets }: Outage): Taken => {
    resultQueueMeets(fault);
    return {};
  };
}

interface Scene {
  readonly requestQueueUrl: string;
  readonly resultQueueUrl: string;
  readonly variables: Readonly<Record<string, string>>;
  /** Resolves when no message is left, or some are among the dead letters. */
  settled(): Promise<{ readonly deleted: number; readonly dead: number }>;
  /** How often each message was received. */
  receives(): number[];
  /** For how many seconds records were handed back, one after the other. */
  readonly delays: readonly number[];
}

interface SceneOptions {
  readonly fifo?: boolean;
  readonly messages?: number;
  /** When the outage is over, by how often each message was received. @default after an hour */
  readonly until?: (receives: readonly number[]) => boolean;
}

/** Messages on a queue with `maxReceiveCount` 5, and an hour without what `take` takes away. */
async function scene(
  take: (outage: Outage) => Promise<Taken> | Taken,
  { fifo = false, messages = MESSAGES, until }: SceneOptions = {},
): Promise<Scene> {
  const create = fifo ? server.fifoQueue : server.queue;
  const RedrivePolicy = redrivePolicy(create({}), 5);
  const requestQueueUrl = create({ VisibilityTimeout: VISIBILITY_SECONDS, RedrivePolicy });
  const resultQueueUrl = create({});
  let startedAt = Number.POSITIVE_INFINITY;
  let fault: Fault | undefined;
  const delays: number[] = [];
  const history = () => sqs.history(nameOf(requestQueueUrl));
  const receives = () => history().map((message) => message.receives);
  const isOut = () =>
    until === undefined ? performance.now() < startedAt + SECOND_MS * OUTAGE_SECONDS : !until(receives());
  sqs.intercept(({ operation, queue, body }) => {
    if (operation === 'ReceiveMessage') startedAt = Math.min(startedAt, performance.now());
    if (operation === 'ChangeMessageVisibilityBatch') {
      for (const [, seconds] of body.matchAll(/"VisibilityTimeout":(\d+)/g)) delays.push(Number(seconds));
    }
    return queue === nameOf(resultQueueUrl) && isOut() ? fault : undefined;
  });
  const { variables, bodies = Array.from({ length: messages }, (_, index) => lookup(index)) } = await take({
    isOut,
    resultQueueMeets: (met) => {
      fault = met;
    },
  });
  server.send(requestQueueUrl, bodies, fifo ? (index) => `group ${index % 4}` : undefined);
  return {
    requestQueueUrl,
    resultQueueUrl,
    variables: {
      AWS_ENDPOINT_URL_SQS: sqs.endpoint,
      BATCHSCORE_MODELS_DIR: await modelsDirectory(LOOKUP),
      BATCHSCORE_REQUEST_QUEUE_URL: requestQueueUrl,
      BATCHSCORE_RESULT_QUEUE_URL: resultQueueUrl,
      BATCHSCORE_VISIBILITY_SECONDS: VISIBILITY_SECONDS,
      ...variables,
    },
    async settled() {
      for (;;) {
        const fates = history().map(({ fate }) => fate);
        const [deleted = 0, dead = 0] = ['deleted', 'dead'].map((fate) => fates.filter((one) => one === fate).length);
        if (deleted + dead === fates.length) return { deleted, dead };
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
    receives,
    delays,
  };
}

/** The real handler behind the local event source mapping. */
async function startFunction({ requestQueueUrl, variables }: Scene): Promise<void> {
  const clients = {
    sqs: server.client(),
    dynamodb: () => dynamodb.client({ endpoint: variables.AWS_ENDPOINT_URL_DYNAMODB ?? '' }),
    s3: () => s3.client({ endpoint: variables.AWS_ENDPOINT_URL_S3 ?? '' }),
  };
  const config = loadConfig(variables);
  const composition = await compose(config, { clients, telemetry: recordingTelemetry(), warn: () => {} });
  const mapping = startEventSourceMapping({
    sqs: server.client(),
    queueUrl: requestQueueUrl,
    queueArn: `arn:aws:sqs:us-east-1:000000000000:${nameOf(requestQueueUrl)}`,
    region: 'us-east-1',
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 2,
    functionTimeoutSeconds: 30,
    invoke: createHandler(composition),
    onError: () => {},
  });
  afterThisTest(async () => {
    await mapping.stop();
    await composition.close();
  });
}

const HOSTS: readonly (readonly [string, (scene: Scene) => Promise<void> | void])[] = [
  ['the function', startFunction],
  ['the worker', ({ variables }) => void startWorkerProcess(variables)],
];

describe.each(HOSTS)('an hour in which %s finds that', (_, start) => {
  it.each(OUTAGES)(
    '%s costs no message',
    async (_, take) => {
      const started = await scene(take);
      await start(started);

      expect(await started.settled()).toEqual({ deleted: MESSAGES, dead: 0 });
      expect(Math.max(...started.receives())).toBeLessThanOrEqual(5);
    },
    60_000,
  );

  it('the result queue throttles costs no message: those that came twice wait for longer', async () => {
    const until = (receives: readonly number[]) => Math.min(...receives) > 2;
    const started = await scene(withoutResultQueue(FAULTS.throttled), { messages: 5, until });
    await start(started);

    expect(await started.settled()).toEqual({ deleted: 5, dead: 0 });
    const within = (shortest: number, longest: number) =>
      started.delays.filter((seconds) => seconds >= shortest && seconds <= longest).length;
    expect([within(1, 1), within(14, 16)]).toEqual([5, 5]);
    // A message may have come for the third time while another came for the second.
    expect(within(224, 256)).toBe(started.delays.length - 10);
  }, 60_000);

  it('the result queue of a FIFO queue is denied costs no message, and keeps each group in order', async () => {
    const started = await scene(withoutResultQueue(FAULTS.denied), { fifo: true });
    await start(started);

    expect(await started.settled()).toEqual({ deleted: MESSAGES, dead: 0 });
    const ids = sqs.history(nameOf(started.resultQueueUrl)).map(({ body }) => Number(JSON.parse(body).id));
    expect(ids).toHaveLength(MESSAGES);
    for (let group = 0; group < 4; group++) {
      const ofGroup = ids.filter((id) => id % 4 === group);
      expect(ofGroup).toEqual(ofGroup.toSorted((a, b) => a - b));
    }
  }, 60_000);
});

describe('a worker without its result queue', () => {
  it('receives no more than it had room for, until a probe finds the queue', async () => {
    const messages = 2_000;
    const started = await scene(withoutResultQueue(FAULTS.denied), { messages });
    startWorkerProcess(started.variables);

    expect(await started.settled()).toEqual({ deleted: messages, dead: 0 });
    // Six batches of 32, polls that were in flight, and one probe.
    expect(started.receives().filter((times) => times > 1).length).toBeLessThan(500);
  }, 60_000);
});
