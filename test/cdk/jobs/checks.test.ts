import { describe, expect, it } from '@jest/globals';
import { Size, Stack } from 'aws-cdk-lib';
import { SecurityGroup, SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { FileSystem } from 'aws-cdk-lib/aws-efs';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { type Compute, ecsCompute, type JobOptions, lambdaCompute, lambdaGpuCompute } from '../../../infra/index.ts';
import { createApp, createScoring, createStack, refusalOf } from '../../helpers/stacks.ts';

const mib = Size.mebibytes;

describe('jobs are refused', () => {
  it.each([
    [
      { inputPrefix: 'jobs/', outputPrefix: 'jobs/out/' },
      "jobsOutputPrefix: expected one that neither begins with jobsInputPrefix nor is its beginning, because what jobs write would start jobs, got 'jobs/out/' with 'jobs/'; put them side by side, such as jobs/in/ and jobs/out/",
    ],
    [{ inputPrefix: 'a/b/', outputPrefix: 'a/' }, "got 'a/' with 'a/b/'; put them side by side"],
    [{ inputPrefix: 'a/', outputPrefix: 'a/' }, "got 'a/' with 'a/'; put them side by side"],
    [
      { inputPrefix: 'jobs' },
      "jobsInputPrefix: expected a path that ends in '/', of at most 512 letters, digits and . _ -, got 'jobs'; change it",
    ],
    [{ outputPrefix: 'all*/' }, "jobsOutputPrefix: expected a path that ends in '/'"],
    [{ outputPrefix: '' }, "got ''; change it"],
    [{ inputPrefix: `${'x'.repeat(512)}/` }, 'jobsInputPrefix: expected a path'],
    [{ concurrency: 0 }, 'jobsConcurrency: expected a whole number from 1 to 10000, got 0'],
    [{ concurrency: 10_001 }, 'jobsConcurrency: expected a whole number from 1 to 10000, got 10001'],
    [
      { concurrency: 50, reservedConcurrency: 40 },
      'jobsConcurrency: expected at most jobsReservedConcurrency, 40, because calls beyond it are throttled, got 50; lower it or raise jobsReservedConcurrency',
    ],
    [{ concurrency: 2, reservedConcurrency: 1.5 }, 'jobsReservedConcurrency: expected a whole number from 1 to 100000'],
    [{ memorySize: mib(10_241) }, 'jobsMemoryMb: expected a whole number from 128 to 10240, got 10241'],
    [
      { memorySize: mib(1023) },
      'jobsMemoryMb: expected at least 1024 = 64 × 16 MiB, the piece of a file that is scored at a time, got 1023, a 64th of which is 15.984375 MiB; raise it',
    ],
    [{ partSize: mib(15) }, 'jobsPartMb: expected a whole number from 16 to 1024, got 15'],
    [{ partSize: mib(1025) }, 'jobsPartMb: expected a whole number from 16 to 1024, got 1025'],
    [{ subnets: { subnetType: SubnetType.PUBLIC } }, 'jobs.subnets: expected only with a vpc, got it without one'],
  ] as const)('with %j', (jobs: JobOptions, sentence) => {
    expect(refusalOf({ jobs })).toContain(sentence);
  });

  it.each([
    ['lambda-gpu', lambdaGpuCompute(), 'lambda-gpu'],
    ['ecs', ecsCompute(), 'worker'],
  ])('with compute %s, whose image has no function on CPUs', (kind, compute, stage) => {
    expect(refusalOf<Compute>({ jobs: {}, compute })).toBe(
      'jobs: expected the image of a function on CPUs, because functions from the same image score jobs, ' +
        `got compute ${kind}, whose image is built for ${stage}; leave jobs out, and deploy them as a stack of their own ` +
        'with compute lambda',
    );
  });

  it('without a vpc where models are in a file system', () => {
    const stack = createStack();
    const vpc = new Vpc(stack, 'Network');
    const accessPoint = new FileSystem(stack, 'Files', { vpc }).addAccessPoint('Models');
    const props = { models: { accessPoint }, compute: lambdaCompute({ vpc }) };
    expect(() => createScoring({ ...props, jobs: {} }, stack)).toThrow(
      'jobs: expected a vpc, because a file system with models is mounted through a network, got none; give jobs the vpc',
    );
  });

  it('with models nowhere', () => {
    expect(refusalOf({ jobs: {}, image: undefined })).toContain('models: expected models or an image with models, got');
  });

  it.each([
    [{ region: 'eu-west-1' }, 'jobs.bucket: expected one in the region of the stack, eu-central-1, because hosts use'],
    [
      { account: '999999999999' },
      'jobs.bucket: expected one in the account of the stack, 123456789012, because the stack sets its notifications, got one in 999999999999; give one of 123456789012',
    ],
  ])('with a bucket that is known to be elsewhere: %j', (elsewhere, sentence) => {
    const stack = new Stack(createApp(), 'Test', { env: { region: 'eu-central-1', account: '123456789012' } });
    const bucket = Bucket.fromBucketAttributes(stack, 'Files', { bucketName: 'files', ...elsewhere });
    expect(() => createScoring({ jobs: { bucket } }, stack)).toThrow(sentence);
  });
});

describe('jobs are taken', () => {
  it.each<readonly [string, JobOptions]>([
    ['every default', {}],
    ['prefixes side by side', { inputPrefix: 'in/', outputPrefix: 'in-out/' }],
    ['the least memory for a piece, and the smallest part', { memorySize: mib(1024), partSize: mib(16) }],
    ['a reserve for two jobs at a time', { concurrency: 100, reservedConcurrency: 200 }],
  ])('with %s', (_, jobs) => {
    expect(refusalOf({ jobs })).toBe('not refused');
  });

  it('with models in a file system and the vpc of it', () => {
    const stack = createStack();
    const vpc = new Vpc(stack, 'Network');
    const securityGroups = [new SecurityGroup(stack, 'Group', { vpc })];
    const accessPoint = new FileSystem(stack, 'Files', { vpc }).addAccessPoint('Models');
    const props = { models: { accessPoint }, compute: lambdaCompute({ vpc }) };
    expect(() => createScoring({ ...props, jobs: { vpc, securityGroups } }, stack)).not.toThrow();
  });
});
