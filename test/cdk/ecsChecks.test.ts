import { describe, expect, it } from '@jest/globals';
import { Duration, Size } from 'aws-cdk-lib';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import {
  type BatchScoringProps,
  type EcsGpuOptions,
  type EcsOptions,
  ecsCompute,
  ecsGpuCompute,
} from '../../infra/index.ts';
import { createScoring, createStack, refusalOf } from '../helpers/stacks.ts';

type Props = Omit<Partial<BatchScoringProps>, 'compute'>;

const onFargate = (options: EcsOptions, props: Props = {}) => refusalOf({ ...props, compute: ecsCompute(options) });
const onGpu = (options: EcsGpuOptions, props: Props = {}) => refusalOf({ ...props, compute: ecsGpuCompute(options) });
const seconds = Duration.seconds;

describe('a service of workers is refused in one sentence', () => {
  it.each<[string, EcsOptions, Props, string]>([
    [
      'with less time to stop than a batch takes',
      { timeout: seconds(60), stopTimeout: seconds(79) },
      {},
      'stopTimeoutSeconds: expected at least 80 = 60 s timeout ÷ 0.75, the share of it in which a worker finishes its ' +
        'batches, got 79; raise it or lower timeoutSeconds',
    ],
    [
      'with longer to stop than Fargate waits',
      { stopTimeout: seconds(121) },
      {},
      'stopTimeoutSeconds: expected at most 120, which is what Fargate waits, got 121; lower it, and timeoutSeconds with it',
    ],
    [
      'with no task at the most',
      { maximumTasks: 0 },
      {},
      'maximumTasks: expected a whole number from 1 to 5000, got 0; choose one in that range',
    ],
    [
      'with fewer tasks at the most than at least',
      { minimumTasks: 3, maximumTasks: 2 },
      {},
      'maximumTasks: expected at least minimumTasks, 3, got 2; raise it',
    ],
    [
      'with more shards than an alarm takes metrics of',
      {},
      { shards: 5 },
      'shards: expected at most 4 with tasks that scale by the backlog of all, because an alarm takes 10 metrics, got ' +
        '5 × 2 and that of the tasks = 11; lower it: a worker receives from one queue as fast as from several',
    ],
    [
      'with too long a window',
      {},
      { window: seconds(301) },
      'windowSeconds: expected 0 to 300, got 301; choose a number in that range',
    ],
    [
      'with too large a batch',
      {},
      { batchSize: 10_001 },
      'batchSize: expected a whole number from 1 to 10000, got 10001; choose one in that range',
    ],
    [
      'traced',
      {},
      { tracing: true },
      'tracing: expected false with compute ecs, whose workers have no daemon of X-Ray beside them, got true; leave it out',
    ],
    [
      'with GPUs, which Fargate does not have',
      {},
      { tuning: { providers: 'cuda' } },
      'providers: expected none that needs a GPU, because compute ecs has none, got cuda; leave it out, take compute ' +
        'ecs-gpu or allow a fallback',
    ],
    [
      'with memory that Fargate does not have',
      { memorySize: Size.gibibytes(9) },
      {},
      'memoryMb: expected 2048 to 8192 in steps of 1024, which Fargate has with 1 vCPU, got 9216; choose one of these or ' +
        'other vcpus',
    ],
    [
      'with a part of a vCPU',
      { vcpus: 3, memorySize: Size.gibibytes(6) },
      {},
      'vcpus: expected one of 0.5, 1, 2, 4, 8, 16, got 3; take one of them',
    ],
    [
      'with less disk than Fargate has',
      { ephemeralStorageSize: Size.gibibytes(20) },
      {},
      'ephemeralStorageMb: expected a whole number from 21504 to 204800, got 20480; choose one in that range',
    ],
    [
      'with subnets of no network',
      { subnets: { subnetType: SubnetType.PUBLIC } },
      {},
      'subnets: expected only with a vpc, got it without one; give the vpc that it is part of',
    ],
  ])('%s', (_, options, props, sentence) => {
    expect(onFargate(options, props)).toBe(sentence);
  });

  it('where an existing queue shows messages again while they are gathered and scored', () => {
    const visibilityTimeout = seconds(60);
    const requestQueue = { queue: new Queue(createStack(), 'Orders', { visibilityTimeout }), visibilityTimeout };
    expect(onFargate({}, { requestQueue })).toBe(
      'visibilityTimeoutSeconds: expected at least 61 = 60 s timeout + 1 s window, got 60; ' +
        "raise the queue's visibility timeout or lower timeoutSeconds",
    );
    const short = { timeout: seconds(10) };
    const queue = new Queue(createStack(), 'Orders', { visibilityTimeout: seconds(30) });
    expect(onFargate(short, { requestQueue: { queue, visibilityTimeout: seconds(30) } })).toContain(
      'expected at least 60 = 3 × 20 s, in which a heartbeat is tried three times, got 30;',
    );
  });
});

describe('a service of workers with GPUs is refused in one sentence', () => {
  it.each<[string, EcsGpuOptions, string]>([
    [
      'on arm64',
      { architecture: Architecture.ARM_64 },
      'architecture: expected x86_64 with a GPU, because CUDA is built for it, got arm64; set x86_64 or compute=ecs',
    ],
    [
      'on Fargate',
      { capacity: 'fargate' as 'asg' },
      'capacity: expected one of managed-instances, asg, because Fargate has no GPU, got fargate; take one of them',
    ],
    [
      'on spot capacity that is gone before it has stopped',
      { spot: true, stopTimeout: seconds(300) },
      'stopTimeoutSeconds: expected at most 120 with spot, whose capacity ends so long after its notice, got 300; lower ' +
        'it or leave out spot',
    ],
    [
      'with several devices of no known type',
      { gpuCount: 2 },
      'instanceTypes: expected some with gpuCount above 1, so that it is known what they cost, got none with 2; name ' +
        'types with so many GPUs, such as g5.12xlarge with 4, and their prices',
    ],
    [
      'on devices that ONNX Runtime has no kernels for',
      { instanceTypes: ['p6-b200.48xlarge'] },
      'instanceTypes: expected GPUs that ONNX Runtime has kernels for, such as those of g4dn, g5, g6 and g6e, got ' +
        'p6-b200.48xlarge, for whose B200 or B300 it has none; take one of those',
    ],
  ])('%s', (_, options, sentence) => {
    expect(onGpu(options)).toBe(sentence);
  });

  it('on Managed Instances in public subnets', () => {
    const vpc = new Vpc(createStack(), 'Own');
    expect(onGpu({ vpc, subnets: { subnetType: SubnetType.PUBLIC } })).toBe(
      'subnets: expected private ones with managed-instances, whose tasks get no public address and would reach nothing, ' +
        'got public ones; give private subnets or capacity=asg',
    );
  });

  it('may stop for longer than on Fargate', () => {
    const compute = ecsGpuCompute({ timeout: seconds(600), stopTimeout: seconds(800) });
    expect(createScoring({ compute }).requestQueue).toBeDefined();
  });
});
