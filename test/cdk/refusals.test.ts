import { describe, expect, it } from '@jest/globals';
import { Duration, Size, Token } from 'aws-cdk-lib';
import { TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import { AttributeType, Table, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { FileSystem } from 'aws-cdk-lib/aws-efs';
import { Alias } from 'aws-cdk-lib/aws-kms';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { type IQueue, Queue, type QueueProps } from 'aws-cdk-lib/aws-sqs';
import {
  type BatchScoringProps,
  type Compute,
  type EcsGpuOptions,
  type EcsOptions,
  ecsCompute,
  ecsGpuCompute,
  type JobOptions,
  type LambdaGpuOptions,
  type LambdaOptions,
  lambdaCompute,
  lambdaGpuCompute,
} from '../../infra/index.ts';
import { createStack, refusalOf } from '../helpers/stacks.ts';

type Props = Partial<BatchScoringProps<Compute>>;

const stack = createStack();
const { seconds, minutes, days, millis } = Duration;
const { mebibytes, gibibytes, bytes } = Size;
const on = (options: LambdaOptions): Props => ({ compute: lambdaCompute(options) });
const onGpu = (options: LambdaGpuOptions): Props => ({ compute: lambdaGpuCompute(options) });
const onFargate = (options: EcsOptions, props: Props = {}): Props => ({ ...props, compute: ecsCompute(options) });
const onEcsGpu = (options: EcsGpuOptions): Props => ({ compute: ecsGpuCompute(options) });
/** Props as an app without types may have them. */
const loose = (props: object): Props => props as Props;
const withJobs = (jobs: JobOptions): Props => ({ jobs });
const canary = (percentage: number, interval: number): Props =>
  on({ trafficRouting: TrafficRouting.timeBasedCanary({ percentage, interval: minutes(interval) }) });
const linear = (percentage: number, interval: number): Props =>
  on({ trafficRouting: TrafficRouting.timeBasedLinear({ percentage, interval: minutes(interval) }) });

let made = 0;
/** The ID of a construct of its own. */
function id(): string {
  made += 1;
  return `Thing${made}`;
}

const visibilityTimeout = seconds(400);
const own = (props: QueueProps = {}): Queue => new Queue(stack, id(), { visibilityTimeout, ...props });
const imported = (name = 'orders'): IQueue =>
  Queue.fromQueueArn(stack, id(), `arn:aws:sqs:eu-central-1:123456789012:${name}`);
const from = (queue: IQueue, deadLetterQueue?: IQueue, timeout = visibilityTimeout): Props => ({
  requestQueue: { queue, visibilityTimeout: timeout, ...(deadLetterQueue && { deadLetterQueue }) },
});
const dead = own();
const redriven = own({ deadLetterQueue: { queue: dead, maxReceiveCount: 5 } });
const bucket = new Bucket(stack, 'Bucket');
const messageId = { name: 'messageId', type: AttributeType.STRING };
const table = new Table(stack, 'Table', { partitionKey: messageId });
const vpc = new Vpc(stack, 'Network');
const publicVpc = new Vpc(stack, 'Public', {
  subnetConfiguration: [{ name: 'Public', subnetType: SubnetType.PUBLIC }],
});
const accessPoint = new FileSystem(stack, 'Files', { vpc }).addAccessPoint('Models');
const publicSubnets = { subnetType: SubnetType.PUBLIC };
const URI = `s3://ml-models/team/${'0'.repeat(64)}`;

/** What is refused, and what is said of it: the name of the setting and the arithmetic. */
const REFUSED: Readonly<Record<string, readonly (readonly [props: Props, said: string])[]>> = {
  'a batch': [
    [{ fifo: true, window: seconds(5) }, 'window: expected 0 on a FIFO queue'],
    [{ fifo: true, batchSize: 11 }, 'batchSize: expected at most 10 on a FIFO queue, got 11'],
    [{ batchSize: 11, window: seconds(0) }, 'window: expected at least 1 with a batchSize above 10, got 0'],
    [
      { batchSize: 0, window: seconds(301) },
      'window: expected a whole number of seconds from 0 to 300, got 301; choose',
    ],
    [{ window: seconds(30), latencyTarget: seconds(30) }, 'latencyTarget: expected more than the window of 30 seconds'],
    [{ maxReceiveCount: 2 }, 'maxReceiveCount: expected a whole number from 3 to 1000, got 2'],
    [{ latencyTarget: days(4) }, 'latencyTarget: expected less than the 345600 seconds that SQS keeps requests'],
    [
      { queueProps: { retentionPeriod: days(15) } },
      'queueProps.retentionPeriod: expected a whole number of seconds from 60',
    ],
    [{ shards: 11 }, 'shards: expected a whole number from 1 to 10, got 11'],
    [{ ...from(own()), queueProps: {} }, 'queueProps: expected only with a new request queue, got it without one'],
    [
      { queueProps: { queueName: 'orders' }, deadLetterQueueProps: { queueName: 'orders' } },
      'deadLetterQueueProps.queueName: expected another name than queueProps.queueName, got orders; change one',
    ],
    [{ shards: 2, queueProps: { queueName: 'orders' } }, 'queueProps.queueName: expected none with 2 request queues'],
    [{ tableProps: {} }, 'tableProps: expected only with a new result table'],
    [{ results: ['table'], stores: { resultTable: table }, tableProps: {} }, 'tableProps: expected only with a new'],
    [{ ...from(own()), shards: 2 }, 'shards: expected only with a new request queue'],
    [{ ...from(own()), urgent: true }, 'urgent: expected only with a new request queue'],
    [onFargate({}, { window: seconds(301) }), 'window: expected 0 to 300 seconds, got 301'],
    [onFargate({}, { batchSize: 10_001 }), 'batchSize: expected a whole number from 1 to 10000, got 10001'],
  ],
  'a function': [
    [on({ timeout: seconds(901) }), 'timeout: expected a whole number of seconds from 1 to 900, got 901'],
    [on({ timeout: seconds(1) }), 'timeout: expected more than the deadline margin of 1000 ms, got 1 s'],
    [on({ memorySize: mebibytes(10_241) }), 'memorySize: expected a whole number of MiB from 128 to 10240, got 10241'],
    [
      on({ ephemeralStorageSize: mebibytes(511) }),
      'ephemeralStorageSize: expected a whole number of MiB from 512 to 10240',
    ],
    [
      { ...on({ architecture: Architecture.custom('riscv64') }), image: undefined, models: URI },
      'architecture: expected one of arm64, x86_64, got riscv64',
    ],
  ],
  'its concurrency': [
    [on({ reservedConcurrency: 1 }), 'reservedConcurrency: expected a whole number from 2 to 100000, got 1'],
    [on({ maximumConcurrency: 1 }), 'maximumConcurrency: expected a whole number from 2 to 1000, got 1'],
    [on({ minimumPollers: 1 }), 'minimumPollers: expected a whole number from 2 to 200, got 1'],
    [on({ maximumPollers: 2001 }), 'maximumPollers: expected a whole number from 2 to 2000, got 2001'],
    [on({ minimumPollers: 3, maximumPollers: 2 }), 'minimumPollers: expected at most maximumPollers, 2, got 3'],
    [on({ minimumPollers: 2, maximumConcurrency: 10 }), 'maximumConcurrency: expected none with minimumPollers or max'],
    [on({ provisionedConcurrency: 1.5 }), 'provisionedConcurrency: expected a whole number from 1 to 100000, got 1.5'],
    [on({ provisionedConcurrency: 0 }), 'provisionedConcurrency: expected a whole number from 1 to 100000, got 0'],
    [
      on({ provisionedConcurrency: 10, reservedConcurrency: 5 }),
      'provisionedConcurrency: expected at most reservedConcurrency, 5, got 10; lower it, or raise reservedConcurrency',
    ],
    [on({ reservedConcurrency: 3, maximumConcurrency: 10 }), 'reservedConcurrency: expected at least 10 = 1 × 10 inv'],
    [on({ reservedConcurrency: 199, maximumPollers: 20 }), 'reservedConcurrency: expected at least 200 = 1 × 200 inv'],
    [on({ reservedConcurrency: 1999, minimumPollers: 2 }), 'reservedConcurrency: expected at least 2000 = 1 × 2000 in'],
    [
      { ...on({ reservedConcurrency: 5 }), shards: 3 },
      'reservedConcurrency: expected at least 6 = 3 × 2 invocations, which SQS starts at a time from each request queue, ' +
        'because those beyond it are throttled, got 5; raise it, or lower maximumConcurrency, maximumPollers or shards',
    ],
  ],
  'a new version': [
    [
      on({ trafficRouting: TrafficRouting.allAtOnce() }),
      'got 0; raise it, or leave trafficRouting out for all at once',
    ],
    [canary(0, 15), 'trafficRouting.percentage: expected a whole number from 1 to 99, got 0'],
    [canary(100, 15), 'trafficRouting.percentage: expected a whole number from 1 to 99, got 100'],
    [canary(10, 9), 'trafficRouting.interval: expected at least 10 minutes from the first step to the last'],
    [linear(25, 3), 'two periods of the alarms that undo a deployment, got 9; raise it'],
  ],
  'a function on GPUs': [
    [onGpu({ gpuMemory: gibibytes(32) }), 'gpuMemory: expected one of 3, 6, 12, 16, 24, 48, got 32'],
    [onGpu({ timeout: seconds(5401) }), 'timeout: expected a whole number of seconds from 1 to 5400, got 5401'],
    [
      onGpu({ maximumEnvironments: 1 }),
      'maximumEnvironments: expected at least 2 = 1 × 2 invocations, which SQS starts',
    ],
    [onGpu({ maximumEnvironments: 1001 }), 'maximumEnvironments: expected a whole number from 1 to 1000, got 1001'],
    [onGpu({ minimumEnvironments: 5, maximumEnvironments: 4 }), 'expected at least minimumEnvironments'],
    [
      { ...onGpu({ maximumEnvironments: 3 }), shards: 2 },
      'maximumEnvironments: expected at least 4 = 2 × 2 invocations',
    ],
  ],
  'a service of workers': [
    [onFargate({ stopTimeout: seconds(79) }), 'stopTimeout: expected at least 80 seconds = 60 s timeout ÷ 0.75'],
    [
      onFargate({ stopTimeout: seconds(121) }),
      'stopTimeout: expected at most 120 seconds, which is what Fargate and spot capacity wait',
    ],
    [onFargate({ maximumTasks: 0 }), 'maximumTasks: expected a whole number from 1 to 5000, got 0'],
    [
      onFargate({ minimumTasks: 3, maximumTasks: 2 }),
      'maximumTasks: expected at least minimumTasks, 3, got 2; raise it',
    ],
    [onFargate({ minimumTasks: 1.5 }), 'minimumTasks: expected a whole number from 0 to 5000, got 1.5'],
    [onFargate({ vcpus: 3 }), 'vcpus: expected one of 0.5, 1, 2, 4, 8, 16, got 3; take one of them'],
    [
      onFargate({ memorySize: mebibytes(2500) }),
      'memorySize: expected 2 to 8 GiB in steps of 1 with 1 vCPUs, got 2.44140625; change one of the two',
    ],
    [
      onFargate({ vcpus: 16, memorySize: gibibytes(36) }),
      'memorySize: expected 32 to 120 GiB in steps of 8 with 16 vCPUs',
    ],
    [
      onFargate({ ephemeralStorageSize: gibibytes(20) }),
      'ephemeralStorageSize: expected a whole number of GiB from 21',
    ],
    [onFargate({}, { shards: 5 }), 'got 5 × 2 and that of the tasks = 11'],
    [onFargate({}, { tracing: true }), 'tracing: expected false with compute ecs'],
    [onEcsGpu({ spot: true, stopTimeout: seconds(300) }), 'stopTimeout: expected at most 120 seconds, which'],
    [
      onEcsGpu({ gpuMemory: gibibytes(48), instanceTypes: ['g4dn.xlarge', 'g6.xlarge'] }),
      'instanceTypes: expected one whose GPU has gpuMemory, 48 GiB, got at most 24 GiB with g4dn.xlarge, g6.xlarge; name',
    ],
    [
      onEcsGpu({ vcpus: 64, instanceTypes: ['g5.xlarge', 'g6.2xlarge'] }),
      'instanceTypes: expected one with 64 vCPUs, got at most 8 with g5.xlarge, g6.2xlarge; name larger ones, or lower vcpus',
    ],
    [onEcsGpu({ vcpus: 65 }), 'vcpus: expected a whole number from 1 to 64, got 65'],
    [
      onGpu({ memorySize: gibibytes(32), instanceTypes: ['g4dn.xlarge'] }),
      'instanceTypes: expected one with 8 vCPUs, got at most 4 with g4dn.xlarge',
    ],
    [onEcsGpu({ instanceTypes: [] }), 'instanceTypes: expected one or more, got none; name some, or leave it out'],
    [onEcsGpu({ gpuCount: 2 }), 'instanceTypes: expected one with 2 GPUs'],
    [onEcsGpu({ gpuCount: 8, instanceTypes: ['g5.12xlarge'] }), 'instanceTypes: expected one with 8 GPUs'],
    [onEcsGpu({ gpuCount: 4, instanceTypes: ['g5.xlarge', 'g6.16xlarge'] }), 'instanceTypes: expected one with 4 GPUs'],
  ],
  'a network that exists already': [
    [on({ vpc, subnets: publicSubnets }), 'subnets: expected private ones, because functions get no public address'],
    [onGpu({ vpc, subnets: publicSubnets }), 'subnets: expected private ones, because instances get no public address'],
    [onEcsGpu({ vpc, subnets: publicSubnets }), 'subnets: expected private ones, because tasks on Managed Instances'],
    [on({ vpc: publicVpc }), 'subnets: expected private ones, because functions get no public address'],
    [withJobs({ vpc, subnets: publicSubnets }), 'jobs.subnets: expected private ones, because functions get no public'],
    [onFargate({ subnets: publicSubnets }), 'subnets: expected vpc with it, got none'],
    [withJobs({ securityGroups: [] }), 'jobs.securityGroups: expected jobs.vpc with it, got none'],
  ],
  // As in an app that no compiler has checked, such as one that Node runs.
  'a value of another type': [
    [
      loose({ window: 5 }),
      'window: expected an amount with a unit, such as Duration.seconds(5) or Size.mebibytes(512), got 5',
    ],
    [
      loose({ compute: lambdaCompute }),
      'compute: expected what a call such as lambdaCompute() returns, got a function; call it',
    ],
    [loose({ compute: 'ecs' }), 'compute: expected what a call such as lambdaCompute() returns, got a string; call it'],
    [loose({ results: 'queue' }), "results: expected an array of stores, got queue; write ['queue']"],
    [
      loose({ tuning: { maxBatchRow: 9 } }),
      'tuning.maxBatchRow: expected a prop of Tuning, got a name that it does not have',
    ],
    [
      loose({ alarmActions: [{ topicArn: 'arn' }] }),
      'alarmActions: expected actions, got something else; wrap a topic',
    ],
    [loose({ logLevel: 'verbose' }), 'logLevel: expected one of debug, info, warn, error, got verbose'],
  ],
  'what is stored': [
    [
      { encryptionKey: Alias.fromAliasName(stack, 'Alias', 'alias/mine') },
      'encryptionKey: expected a key, got the imported alias/mine, to which the CDK may grant nothing; import its key with',
    ],
    [{ resultsPerMessage: 10_000, results: ['table'] }, 'resultsPerMessage: expected queue among the results'],
    [
      { clientQueues: Array.from({ length: 10 }, (_, index) => `web${index}`) },
      'clientQueues: expected at most 9, because one alarm watches them and the first with 10 metrics, got 10',
    ],
    [{ clientQueues: ['web', 'web'] }, 'clientQueues: expected names of up to 32 letters and digits'],
    [{ clientQueues: ['web'], results: ['table'] }, 'clientQueues: expected queue among the results, got table'],
    [{ results: ['queue', 'queue'] }, 'results: expected one or more of queue, table, bucket, each once, got q'],
    [{ results: [] }, 'results: expected one or more of queue, table, bucket, each once, got none'],
    [
      { alarmThresholds: { retriedPercent: 100 } },
      'alarmThresholds.retriedPercent: expected a whole number from 0 to 99, got 100',
    ],
    [
      { alarmThresholds: { errorPercent: -1 } },
      'alarmThresholds.errorPercent: expected a whole number from 0 to 99, got -1',
    ],
    [
      { keyPrefix: 'fraud/' },
      'keyPrefix: expected it with a payloadBucket, resultBucket or capture.bucket that exists',
    ],
    [{ payloadBucket: bucket, payloadExpiry: days(15) }, 'payloadExpiry: expected only with a new payload bucket'],
    [
      { results: ['bucket'], stores: { resultBucket: bucket }, resultExpiry: days(9) },
      'resultExpiry: expected only with a new result bucket',
    ],
    [{ resultExpiry: days(9) }, 'resultExpiry: expected only with a new result bucket'],
    [
      { results: ['bucket'], resultExpiry: days(0) },
      'resultExpiry: expected a whole number of days from 1 to 3650, got 0',
    ],
    [{ payloadExpiry: days(3651) }, 'payloadExpiry: expected a whole number of days from 1 to 3650, got 3651'],
  ],
  'the environment': [
    [
      { environment: { BATCHSCORE_MAX_BATCH_ROWS: '5', ORT_DISABLE_TELEMETRY: '0', TZ: 'UTC' } },
      'environment: expected no name that the construct sets itself, got BATCHSCORE_MAX_BATCH_ROWS, ORT_DISABLE_TELEM',
    ],
    [
      { environment: { KEYS: 'k'.repeat(4096) } },
      'environment: expected names and values of at most 4096 bytes, with those that the construct sets, got ',
    ],
    [
      { environment: { 'my-var': 'x' } },
      'environment: expected names of two or more letters, digits and _ that begin with a letter, got my-var',
    ],
    [{ tuning: { maxPayloadSize: Size.bytes(0) } }, 'tuning.maxPayloadSize: expected'],
    [onFargate({}, { tuning: { providers: 'cuda' } }), 'expected none that needs a GPU, because compute ecs'],
  ],
  'an existing request queue': [
    [{ ...from(own()), fifo: true }, 'fifo: expected false, as the given request queue is, got true'],
    // As in an app that no compiler has checked.
    [
      { requestQueue: { queue: own({ visibilityTimeout: seconds(30) }) } } as unknown as Props,
      'requestQueue.visibilityTimeout: expected a duration, got none; give Duration.seconds(30), as the queue has it',
    ],
    [
      { requestQueue: { queue: imported() } } as unknown as Props,
      "requestQueue.visibilityTimeout: expected a duration, got none; give the queue's own",
    ],
    [{ requestQueue: own() } as unknown as Props, 'requestQueue: expected an object with queue and visibilityTimeout'],
    [
      from(own({ visibilityTimeout: seconds(90) })),
      'requestQueue.visibilityTimeout: expected 90 seconds, as the given request',
    ],
    [
      from(new Queue(stack, id())),
      'requestQueue.visibilityTimeout: expected 30 seconds, as the given request queue has it, got 400',
    ],
    [
      from(imported(), undefined, millis(400_500)),
      'requestQueue.visibilityTimeout: expected a whole number of seconds from 0 to 43200, got 400.5',
    ],
    [from(imported(), undefined, seconds(43_201)), 'requestQueue.visibilityTimeout: expected a whole number'],
    [
      { ...from(imported(), undefined, seconds(29)), ...on({ timeout: seconds(30) }) },
      'requestQueue.visibilityTimeout: expected at least 30 seconds, the timeout, got 29',
    ],
    [
      onFargate({}, from(imported(), undefined, seconds(60))),
      'expected at least 61 seconds = 60 s timeout + 1 s window',
    ],
    [
      onFargate({ timeout: seconds(10) }, from(imported(), undefined, seconds(30))),
      'expected at least 60 seconds = 3 × 20 s, in which a heartbeat is tried three times, got 30',
    ],
    [{ ...from(redriven), maxReceiveCount: 7 }, 'maxReceiveCount: expected 5, as the given request queue has it'],
    [from(own({ deadLetterQueue: { queue: dead, maxReceiveCount: 2 } })), 'maxReceiveCount: expected a whole number'],
    [from(redriven, imported('dead')), 'where the redrive policy of the request queue sends messages, got'],
    [
      from(own(), dead),
      'requestQueue.deadLetterQueue: expected a request queue with a redrive policy, because SQS moves',
    ],
    [from(imported(), imported()), 'requestQueue.deadLetterQueue: expected another queue than requestQueue, because'],
    [from(imported(), own({ fifo: true })), 'requestQueue.deadLetterQueue: expected a standard queue, as the request'],
    [
      { ...from(redriven), stores: { resultQueue: dead } },
      'stores.resultQueue: expected another queue than requestQueue.d',
    ],
    [
      { ...from(imported(), imported('dead')), stores: { resultQueue: imported('dead') } },
      'stores.resultQueue: expected another queue than requestQueue.deadLetterQueue, because requests, dead letters and',
    ],
    [
      { ...from(own({ retentionPeriod: minutes(5) })), latencyTarget: minutes(5) },
      'latencyTarget: expected less than the 300 seconds that SQS keeps requests, because its alarm would never go off, got 300',
    ],
  ],
  'existing stores': [
    [{ stores: { resultQueue: own({ fifo: true }) } }, 'stores.resultQueue: expected a standard queue, as the request'],
    [{ stores: { resultTable: table } }, 'stores.resultTable: expected table among the results where one is given'],
    [{ stores: { resultBucket: bucket } }, 'stores.resultBucket: expected bucket among the results where one is given'],
    [{ results: ['table'], stores: { resultQueue: own() } }, 'stores.resultQueue: expected queue among the results'],
    [
      { ...from(imported()), stores: { resultQueue: imported() } },
      'stores.resultQueue: expected another queue than requestQueue, b',
    ],
    [
      {
        results: ['table'],
        stores: {
          resultTable: new TableV2(stack, id(), {
            partitionKey: messageId,
            sortKey: { name: 'at', type: AttributeType.NUMBER },
          }),
        },
      },
      'expected the partition key messageId (S) and no sort key, got messageId (S) and at (N)',
    ],
  ],
  models: [
    [{ image: undefined }, 'models: expected models or an image with models, got neither'],
    [{ models: 'models' }, 'models: expected a folder of models or an image, got both'],
    [{ models: 's3://ml-models/team' }, 'models: expected the URI that batchscore publish printed'],
    [
      { models: { uri: URI, bucket: Bucket.fromBucketName(stack, id(), 'other') } },
      'models.bucket: expected the bucket',
    ],
    [{ models: { accessPoint } }, 'models: expected a function with a network of its own, because a file system is'],
  ],
  jobs: [
    [withJobs({ inputPrefix: 'jobs/', outputPrefix: 'jobs/out/' }), 'jobs.outputPrefix: expected one that'],
    [withJobs({ inputPrefix: 'a/b/', outputPrefix: 'a/' }), "got 'a/' with 'a/b/'; put them side by side"],
    [withJobs({ inputPrefix: 'jobs' }), "jobs.inputPrefix: expected a path that ends in '/'"],
    [withJobs({ outputPrefix: 'all*/' }), "jobs.outputPrefix: expected a path that ends in '/'"],
    [withJobs({ concurrency: 10_001 }), 'jobs.concurrency: expected a whole number from 1 to 10000, got 10001'],
    [withJobs({ concurrency: 50, reservedConcurrency: 40 }), 'expected at most jobs.reservedConcurrency'],
    [withJobs({ memorySize: mebibytes(1023) }), 'jobs.memorySize: expected a whole number of MiB from 1024'],
    [
      { payloadBucket: bucket, keyPrefix: 'jobs/in/', jobs: { bucket } },
      "keyPrefix: expected keys apart from jobs.inputPrefix, 'jobs/in/', whose objects start jobs, got 'jobs/in/' in the same",
    ],
    [
      { results: ['bucket'], stores: { resultBucket: bucket }, jobs: { bucket, inputPrefix: 'batchscore/' } },
      "keyPrefix: expected keys apart from jobs.inputPrefix, 'batchscore/'",
    ],
    [{ ...onGpu({}), jobs: {} }, 'jobs: expected the image of a function on CPUs'],
    [onFargate({}, { jobs: {} }), 'got compute ecs, whose image is built for worker'],
    [{ ...on({ vpc }), models: { accessPoint }, jobs: {} }, 'jobs: expected a vpc, because a file system with models'],
  ],
};

describe.each(Object.entries(REFUSED))('%s that would fail in production is refused', (_, cases) => {
  it.each(cases.map(([props, said]) => [said, props] as const))('%s', (said, props) => {
    expect(refusalOf(props)).toContain(said);
  });
});

it.each<[name: string, props: (token: number) => Props]>([
  ['window', (token) => ({ window: seconds(token) })],
  ['shards', (shards) => ({ shards })],
  ['results', (token) => ({ results: [Token.asString(token) as 'queue'] })],
  ['results', () => ({ results: Token.asList({ Ref: 'Stores' }) as 'queue'[] })],
  ['trafficRouting.percentage', (token) => canary(token, 15)],
  ['trafficRouting.percentage', (token) => linear(token, 3)],
  ['batchSize', (batchSize) => onFargate({}, { batchSize })],
  ['minimumTasks', (minimumTasks) => onFargate({ minimumTasks, maximumTasks: 9 })],
  ['minimumEnvironments', (minimumEnvironments) => onGpu({ minimumEnvironments })],
  ['models', (token) => ({ image: undefined, models: Token.asString(token) })],
  ['vcpus', (vcpus) => onFargate({ vcpus })],
  ['vcpus', (vcpus) => onEcsGpu({ vcpus })],
  ['latencyTarget', (token) => ({ latencyTarget: minutes(token) })],
  ['resultTtl', (token) => ({ results: ['table'], resultTtl: days(token) })],
  ['payloadExpiry', (token) => ({ payloadExpiry: Duration.hours(token) })],
  ['clientQueues', (token) => ({ clientQueues: [Token.asString(token)] })],
  ['tuning.maxAge', (token) => ({ tuning: { maxAge: seconds(token) } })],
  ['gpuCount', (gpuCount) => onEcsGpu({ gpuCount, instanceTypes: ['g5.12xlarge'] })],
])('what others are computed from is refused where only the deployment knows it: %s', (name, props) => {
  expect(refusalOf(props(Token.asNumber({ Ref: 'Number' })))).toBe(
    `Test/Scoring: ${name}: expected a value that is known at synth, got a token; write it out`,
  );
});

it.each<[string, (instanceTypes: string[]) => Props]>([
  ['a function', (instanceTypes) => onGpu({ instanceTypes })],
  ['a service on Managed Instances', (instanceTypes) => onEcsGpu({ instanceTypes })],
])('of instance types, %s takes those with kernels alone', (_, props) => {
  for (const type of ['p3.2xlarge', 'g3s.xlarge', 'g4ad.xlarge', 'p6-b200.48xlarge', 'm5.large', 'g*', 'xg6.xlarge']) {
    expect(refusalOf(props(['g6.xlarge', type]))).toBe(
      'Test/Scoring: instanceTypes: expected families whose GPU the CUDA kernels of ONNX Runtime run on, g4dn, g5, g6, g6e, ' +
        `g6f, g7e, gr6, gr6f, p4d, p4de, p5, p5e, p5en, got ${type}; take one of those`,
    );
  }
  const taken = ['g4dn.metal', 'g5.48xlarge', 'gr6.4xlarge', 'g7e.2xlarge', 'p5en.48xlarge', 'g6.*'];
  expect(refusalOf(props([...taken, Token.asString({ Ref: 'Type' })]))).toBe('not refused');
});

it('everything is refused at once, each in a sentence with the cure', () => {
  expect(refusalOf({ batchSize: 0, maxReceiveCount: 1 })).toBe(
    'Test/Scoring: batchSize: expected a whole number from 1 to 10000, got 0; choose one in that range; ' +
      'maxReceiveCount: expected a whole number from 3 to 1000, got 1; choose one in that range',
  );
});

it.each<[string, Props]>([
  ['the shortest canary, and the slowest', canary(1, 2880)],
  ['the longest invocation on a GPU', onGpu({ timeout: seconds(5400) })],
  ['steps of ten minutes', linear(50, 10)],
  ['a long stop with instances of its own', onEcsGpu({ timeout: seconds(600), stopTimeout: seconds(800) })],
  ['an imported queue, as it is said to be', from(imported())],
  ['a queue that hides messages for one timeout', from(imported(), undefined, seconds(60))],
  [
    'a queue whose visibility only the deployment knows',
    from(own({ visibilityTimeout: seconds(Token.asNumber({ Ref: 'Seconds' })) })),
  ],
  [
    'a batch that only the deployment knows, with the backlog of a task',
    onFargate({ backlogPerTask: 500 }, { batchSize: Token.asNumber({ Ref: 'Size' }) }),
  ],
  ['a limit of one queue that only the deployment knows', on({ maximumConcurrency: Token.asNumber({ Ref: 'Most' }) })],
  ['the dead letters that the redrive policy names', { ...from(redriven, dead), maxReceiveCount: 5 }],
  ['other receives than an imported queue may have', { ...from(imported()), maxReceiveCount: 7 }],
  [
    'a target within the retention that is given',
    { latencyTarget: days(9), queueProps: { retentionPeriod: days(10) } },
  ],
  ['other queues for requests and results', { ...from(imported()), stores: { resultQueue: imported('scores') } }],
  ['a table with the key', { results: ['table'], stores: { resultTable: table } }],
  ['an imported table', { results: ['table'], stores: { resultTable: Table.fromTableName(stack, id(), 'results') } }],
  ['prefixes of jobs side by side', withJobs({ inputPrefix: 'in/', outputPrefix: 'in-out/' })],
  [
    'payloads and results beside the files of jobs',
    {
      payloadBucket: bucket,
      stores: { resultBucket: bucket },
      results: ['bucket'],
      keyPrefix: 'jobs/',
      jobs: { bucket },
    },
  ],
  ['the least memory for a piece of a job', withJobs({ memorySize: mebibytes(1024) })],
  ['jobs with the network of a file system', { ...on({ vpc }), models: { accessPoint }, jobs: { vpc } }],
])('%s is taken', (_, props) => {
  expect(refusalOf(props)).toBe('not refused');
});

describe('payloads must not go before', () => {
  it.each<[what: string, props: Props, days: number]>([
    ['messages of a standard queue', {}, 14],
    ['those of a FIFO queue, whose days begin anew', { fifo: true }, 18],
    ['results in the table', { results: ['table'], resultTtl: seconds(2_592_001) }, 31],
  ])('%s', (_, props, least) => {
    expect(refusalOf({ ...props, payloadExpiry: days(least - 1) })).toBe(
      `Test/Scoring: payloadExpiry: expected at least ${least} days, as long as messages and results may point to payloads, ` +
        `got ${least - 1}; raise it`,
    );
    expect(refusalOf({ ...props, payloadExpiry: days(least) })).toBe('not refused');
  });

  it('but may before what points into a given bucket', () => {
    expect(refusalOf({ results: ['table'], resultTtl: days(60), payloadBucket: bucket })).toBe('not refused');
  });
});

describe('an amount', () => {
  const AMOUNTS: readonly [name: string, props: (amount: Duration) => Props, perUnit?: number][] = [
    ['window', (window) => ({ window, latencyTarget: minutes(9) })],
    ['latencyTarget', (latencyTarget) => ({ latencyTarget })],
    ['resultTtl', (resultTtl) => ({ results: ['table'], resultTtl })],
    ['payloadExpiry', (payloadExpiry) => ({ payloadExpiry }), 86_400],
    ['timeout', (timeout) => on({ timeout })],
    ['tuning.deadlineMargin', (deadlineMargin) => ({ tuning: { deadlineMargin } }), 0.001],
    ['memorySize', (amount) => on({ memorySize: bytes(amount.toSeconds({ integral: false })) }), 1_048_576],
  ];

  it.each(AMOUNTS)('that is not whole is refused, whatever is derived from it: %s', (name, props, perUnit = 1) => {
    const sentence = refusalOf(props(millis(1500.5)));
    expect(sentence).toMatch(/^Test\/Scoring: [^;]*; choose one/);
    expect(sentence).toContain(`: ${name}: expected a whole number`);
    expect(sentence).toContain(`, got ${1.5005 / perUnit}; choose one`);
  });
});
