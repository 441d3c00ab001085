import { describe, expect, it } from '@jest/globals';
import { Duration, Size, Stack } from 'aws-cdk-lib';
import { Annotations, Match } from 'aws-cdk-lib/assertions';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { type BatchScoringProps, lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { createScoring, createStack, refusalOf } from '../helpers/stacks.ts';

const REFUSED: readonly (readonly [what: string, props: Partial<BatchScoringProps>, sentence: string])[] = [
  [
    'FIFO with a window',
    { fifo: true, window: Duration.seconds(5) },
    'windowSeconds: expected 0 on a FIFO queue, which has no batching window, got 5; set it to 0 or use a standard queue',
  ],
  [
    'FIFO with a batch above 10',
    { fifo: true, batchSize: 11 },
    'batchSize: expected at most 10 on a FIFO queue, got 11; lower it or use a standard queue',
  ],
  [
    'a batch above 10 without a window',
    { batchSize: 11, window: Duration.seconds(0) },
    'windowSeconds: expected at least 1 with a batchSize above 10, got 0 with batchSize 11; raise windowSeconds or lower batchSize',
  ],
  [
    'fewer than three receives',
    { maxReceiveCount: 2 },
    'maxReceiveCount: expected at least 3, because throttles and timeouts count as receives, got 2; raise it to 5',
  ],
  [
    'maximum concurrency together with pollers',
    { compute: lambdaCompute({ maximumConcurrency: 5, minimumPollers: 2 }) },
    'maximumConcurrency: expected none alongside provisioned pollers, got 5 with 2 pollers; leave out one of the two',
  ],
  [
    'more pollers than there may be',
    { compute: lambdaCompute({ maximumPollers: 10_001 }) },
    'maximumPollers: expected a whole number from 2 to 10000, got 10001; choose one in that range',
  ],
  [
    'more pollers at least than at most',
    { compute: lambdaCompute({ minimumPollers: 9, maximumPollers: 3 }) },
    'maximumPollers: expected at least minimumPollers, 9, got 3; raise it',
  ],
  [
    'a smaller reserve than SQS may use at a time',
    { compute: lambdaCompute({ reservedConcurrency: 3, maximumConcurrency: 10 }) },
    'reservedConcurrency: expected at least maximumConcurrency, 10, because invocations beyond it are throttled, got 3; ' +
      'raise it or lower maximumConcurrency',
  ],
  [
    'a reserve of one, while SQS starts two invocations at a time',
    { compute: lambdaCompute({ reservedConcurrency: 1 }) },
    'reservedConcurrency: expected at least 2, which SQS starts at a time at least, because invocations beyond it are ' +
      'throttled, got 1; raise it',
  ],
  [
    'more pollers than the reserve holds invocations of',
    { compute: lambdaCompute({ reservedConcurrency: 199, maximumPollers: 20 }) },
    'reservedConcurrency: expected at least 200, because each poller starts up to 10 invocations at a time and those ' +
      'beyond it are throttled, got 199 with 20 pollers; raise it or set a lower maximumPollers',
  ],
  [
    'as many pollers as the default allows, beside a reserve that is smaller',
    { compute: lambdaCompute({ reservedConcurrency: 1999, minimumPollers: 2 }) },
    'reservedConcurrency: expected at least 2000, because each poller starts up to 10 invocations at a time and those ' +
      'beyond it are throttled, got 1999 with the default of 200 pollers; raise it or set a lower maximumPollers',
  ],
  [
    'a timeout above 900 s',
    { compute: lambdaCompute({ timeout: Duration.seconds(901) }) },
    'timeoutSeconds: expected a whole number from 1 to 900, got 901; choose one in that range',
  ],
  [
    'a timeout within the deadline margin',
    {
      compute: lambdaCompute({ timeout: Duration.seconds(5) }),
      tuning: { deadlineMargin: Duration.millis(5_000) },
      latencyTarget: Duration.seconds(10),
    },
    'timeoutSeconds: expected more than the deadline margin of 5000 ms, got 5 s = 5000 ms; raise it or lower deadlineMarginMs',
  ],
  [
    'memory above 10,240 MB',
    { compute: lambdaCompute({ memorySize: Size.mebibytes(10_241) }) },
    'memoryMb: expected a whole number from 128 to 10240, got 10241; choose one in that range',
  ],
  [
    'a GPU on arm64',
    { compute: lambdaGpuCompute({ architecture: Architecture.ARM_64 }) },
    'architecture: expected x86_64, because Lambda has no GPU with arm64; set x86_64 or compute=lambda',
  ],
  [
    'a size of GPU memory that does not exist',
    { compute: lambdaGpuCompute({ gpuMemory: Size.gibibytes(32) }) },
    'gpuMemoryGiB: expected one of 3, 6, 12, 16, 24, 48, got 32; take one of them',
  ],
  [
    'GPUs that ONNX Runtime has no kernels for',
    { compute: lambdaGpuCompute({ instanceTypes: ['g6.xlarge', 'p6-b200.48xlarge'] }) },
    'instanceTypes: expected GPUs that ONNX Runtime has kernels for, such as those of g4dn, g5, g6 and g6e, got p6-b200.48xlarge, for whose B200 or B300 it has none; take one of those',
  ],
  [
    'a single GPU, while SQS starts two invocations at a time',
    { compute: lambdaGpuCompute({ maximumEnvironments: 1 }) },
    'maximumEnvironments: expected a whole number from 2 to 1000, got 1; choose one in that range',
  ],
  [
    'more invocations at a time than GPUs',
    { compute: lambdaGpuCompute({ maximumEnvironments: 4, maximumConcurrency: 6 }) },
    'maximumConcurrency: expected at most maximumEnvironments, 4, because each runs one invocation at a time and more are ' +
      'throttled, got 6; lower it or raise maximumEnvironments',
  ],
  [
    'more GPUs at least than at most',
    { compute: lambdaGpuCompute({ minimumEnvironments: 5, maximumEnvironments: 4 }) },
    'maximumEnvironments: expected at least minimumEnvironments, 5, got 4; raise it',
  ],
  [
    'a latency target within the window',
    { window: Duration.seconds(30), latencyTarget: Duration.seconds(30) },
    'latencyTargetSeconds: expected more than windowSeconds, 30, got 30; raise it or shorten the window',
  ],
  [
    'results that share messages of no queue',
    { resultsPerMessage: 'fill', results: ['table', 'bucket'] },
    'resultsPerMessage: expected queue among the results, whose messages they share, got table,bucket; add queue or leave it out',
  ],
  [
    'a size of messages that no results share',
    { resultMessageSize: Size.bytes(131_072) },
    'resultMessageBytes: expected it with resultsPerMessage above 1, as it is the size of a message of several results, ' +
      'got 131072 with 1; set resultsPerMessage to fill or leave it out',
  ],
  [
    'a result store named twice',
    { results: ['queue', 'queue'] },
    'results: expected one or more of queue, table, bucket, each once, got queue,queue; name where results should go',
  ],
  [
    'no result store',
    { results: [] },
    'results: expected one or more of queue, table, bucket, each once, got none; name where results should go',
  ],
  [
    'a variable of the host among those that are added',
    { environment: { NODE_OPTIONS: '', BATCHSCORE_MAX_BATCH_ROWS: '5', BATCHSCORE_COLOUR: 'red' } },
    'environment: expected no name that begins with BATCHSCORE_, as the construct sets those, ' +
      'got BATCHSCORE_MAX_BATCH_ROWS, BATCHSCORE_COLOUR; set it with tuning or another prop',
  ],
  [
    'variables that Lambda takes no names like',
    { environment: { TZ: 'UTC', X: '1', 'A-B': '2', '9a': '3', _a: '4' } },
    'environment: expected names of a letter followed by letters, digits and _, at least two in all, ' +
      'got X, A-B, 9a, _a; rename it',
  ],
  [
    "ONNX Runtime's telemetry that is turned on",
    { environment: { ORT_DISABLE_TELEMETRY: '0' } },
    'environment: expected no ORT_DISABLE_TELEMETRY but 1, as nothing leaves the account, ' +
      'got ORT_DISABLE_TELEMETRY; leave it out',
  ],
  [
    'models beside an image',
    { models: 'models' },
    'models: expected a folder of models or an image, got both; give one of them',
  ],
  [
    'several things at once',
    { batchSize: 0, window: Duration.seconds(301) },
    'batchSize: expected a whole number from 1 to 10000, got 0; choose one in that range; ' +
      'windowSeconds: expected a whole number from 0 to 300, got 301; choose one in that range',
  ],
];

describe('what would fail in production', () => {
  it.each(REFUSED)('%s is refused with the numbers and the cure', (_, props, sentence) => {
    expect(refusalOf(props)).toBe(sentence);
  });

  it('an existing queue is refused whose messages show up while they are scored', () => {
    const queue = new Queue(createStack(), 'Orders', { visibilityTimeout: Duration.seconds(184) });
    expect(
      refusalOf({
        requestQueue: { queue, visibilityTimeout: Duration.seconds(184) },
        compute: lambdaCompute({ timeout: Duration.seconds(30) }),
        window: Duration.seconds(5),
      }),
    ).toBe(
      'visibilityTimeoutSeconds: expected at least 185 = 6 × 30 s timeout + 5 s window, got 184; ' +
        "raise the queue's visibility timeout or lower timeoutSeconds",
    );
  });

  it('an existing queue is refused that gives up after two receives', () => {
    const stack = createStack();
    const deadLetterQueue = { queue: new Queue(stack, 'Dead'), maxReceiveCount: 2 };
    const visibilityTimeout = Duration.seconds(400);
    const queue = new Queue(stack, 'Orders', { deadLetterQueue, visibilityTimeout });
    expect(refusalOf({ requestQueue: { queue, visibilityTimeout } })).toContain('maxReceiveCount: expected at least 3');
  });

  it('a FIFO setting is refused that contradicts the existing queue', () => {
    const queue = new Queue(createStack(), 'Orders');
    expect(refusalOf({ fifo: true, requestQueue: { queue, visibilityTimeout: Duration.seconds(400) } })).toContain(
      'fifo: expected false, as the given request queue is, got true; leave it out',
    );
  });

  it('a result queue is refused that is of another kind than the request queue', () => {
    const resultQueue = new Queue(createStack(), 'Scores', { fifo: true });
    expect(refusalOf({ stores: { resultQueue } })).toBe(
      'stores.resultQueue: expected a standard queue, as the request queue is, got a FIFO queue; give one of the same kind',
    );
  });

  it.each([
    ['cpux', "among cpu, webgpu, cuda, tensorrt, got 'cpux'; did you mean cpu?"],
    ['cpu, openvino', "got 'openvino'; take one of them"],
  ])('providers %s are refused that ONNX Runtime does not have', (providers, sentence) => {
    expect(refusalOf({ tuning: { providers } })).toContain(sentence);
  });

  it('batches of large messages that never fill are warned of, and deployed', () => {
    const stack = Stack.of(createScoring({ batchSize: 100, largestMessage: Size.bytes(70_000) }));
    Annotations.fromStack(stack).hasWarning(
      '/Test/Scoring',
      Match.stringLikeRegexp(
        'batchSize: expected at most 6291456 bytes in one invocation, got 100 × 70000 bytes = 7000000; lower batchSize to 89',
      ),
    );
  });

  it('batches of large messages that just fill are not warned of', () => {
    const stack = Stack.of(createScoring({ batchSize: 100, largestMessage: Size.bytes(62_914) }));
    Annotations.fromStack(stack).hasNoWarning('*', Match.anyValue());
  });

  it('bodies over 1 MiB count as what SQS takes, because they go through the payload bucket', () => {
    const stack = Stack.of(
      createScoring({ batchSize: 6, window: Duration.seconds(0), largestMessage: Size.bytes(50_000_000) }),
    );
    Annotations.fromStack(stack).hasNoWarning('*', Match.anyValue());
  });
});
