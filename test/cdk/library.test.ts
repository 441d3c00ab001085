import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { CfnParameter, Duration, Lazy, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { BillingMode } from 'aws-cdk-lib/aws-dynamodb';
import { Port, SecurityGroup, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Repository } from 'aws-cdk-lib/aws-ecr';
import { RecursiveLoop } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import {
  BatchScoring,
  type BatchScoringProps,
  type Compute,
  ecsCompute,
  ecsGpuCompute,
  lambdaCompute,
  lambdaGpuCompute,
  type MoreQueueProps,
  ValidationError,
} from '../../infra/index.ts';
import {
  containerIn,
  createScoring,
  createStack,
  environmentIn,
  only,
  SCORING,
  templateOf,
} from '../helpers/stacks.ts';

function errorOf(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe('The construct as a library', () => {
  it('names the construct and its props where they are wrong', () => {
    const props = {
      batchSize: 11,
      window: Duration.seconds(0),
      compute: lambdaCompute({ timeout: Duration.hours(1) }),
    };
    const error = errorOf(() => createScoring(props));
    expect(error).toBeInstanceOf(ValidationError);
    expect(error).toMatchObject({
      name: 'ValidationError',
      message: expect.stringMatching(
        /^Test\/Scoring: window: expected at least 1 .*; timeout: expected a whole number/,
      ),
    });
    expect(errorOf(() => createScoring().grantSubmitJobs(createScoring().grantPrincipal as never))).toMatchObject({
      message: expect.stringMatching(/^Test\/Scoring: grantSubmitJobs: /),
    });
  });

  it('begins the stack of a refusal at the line that makes the construct', () => {
    const { stack } = errorOf(() => createScoring({ shards: 11 })) as Error;
    const [first, second] = stack?.split('\n') ?? [];
    expect(first).toMatch(/^ValidationError: Test\/Scoring: shards: expected/);
    expect(second).toContain('test/helpers/stacks.ts');
  });

  it('takes no error of the system for a refusal', () => {
    const { TMPDIR } = process.env;
    process.env.TMPDIR = join(import.meta.dirname, 'nowhere');
    try {
      const error = errorOf(() => createScoring({ image: undefined, models: 'models', defaultModel: 'digits' }));
      expect(error).toMatchObject({ code: 'ENOENT', syscall: 'mkdtemp' });
      expect(error).not.toBeInstanceOf(ValidationError);
    } finally {
      if (TMPDIR === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = TMPDIR;
    }
  });

  it('passes over what is known at deployment alone', () => {
    const stack = createStack();
    const number = (id: string): number => new CfnParameter(stack, id, { type: 'Number' }).valueAsNumber;
    const scoring = createScoring(
      {
        batchSize: number('Batch'),
        maxReceiveCount: number('Receives'),
        defaultModel: new CfnParameter(stack, 'Model').valueAsString,
        tuning: { maxBatchRows: number('Rows') },
        alarmThresholds: { retriedPercent: number('Retried') },
      },
      stack,
    );
    const template = templateOf(scoring);
    expect(environmentIn(template)).toMatchObject({
      BATCHSCORE_BATCH_SIZE: { Ref: 'Batch' },
      BATCHSCORE_DEFAULT_MODEL: { Ref: 'Model' },
      BATCHSCORE_MAX_BATCH_ROWS: { Ref: 'Rows' },
    });
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', { BatchSize: { Ref: 'Batch' } });
    template.hasResourceProperties('AWS::SQS::Queue', { RedrivePolicy: { maxReceiveCount: { Ref: 'Receives' } } });
    template.hasResourceProperties('AWS::CloudWatch::Alarm', { Threshold: { Ref: 'Retried' } });
  });

  it('takes a number that is produced late, and writes it as text where the environment has it', () => {
    const late = Lazy.number({ produce: () => 7 });
    const compute = ecsCompute({ pipelineDepth: late });
    const ofFunction = templateOf(
      createScoring({ batchSize: late, tuning: { maxBatchRows: late }, jobs: { concurrency: late } }),
    );
    expect(environmentIn(ofFunction)).toMatchObject({ BATCHSCORE_BATCH_SIZE: '7', BATCHSCORE_MAX_BATCH_ROWS: '7' });
    const worker = containerIn(templateOf(createScoring<Compute>({ compute })));
    expect(worker.Environment).toContainEqual({ Name: 'BATCHSCORE_PIPELINE_DEPTH', Value: '7' });
  });

  it('hands on what no guarantee depends on, and keeps what one does', () => {
    const template = templateOf(
      createScoring({
        results: ['table'],
        compute: lambdaCompute({ functionProps: { functionName: 'fraud', recursiveLoop: RecursiveLoop.ALLOW } }),
        queueProps: { queueName: 'orders', deliveryDelay: Duration.seconds(5), fifo: true } as MoreQueueProps,
        deadLetterQueueProps: { queueName: 'given-up', removalPolicy: RemovalPolicy.DESTROY },
        tableProps: { tableName: 'scores', billingMode: BillingMode.PROVISIONED, readCapacity: 7 },
      }),
    );
    expect(only(template, 'AWS::Lambda::Function', SCORING)).toMatchObject({
      FunctionName: 'fraud',
      RecursiveLoop: 'Allow',
    });
    expect(only(template, 'AWS::SQS::Queue', { QueueName: 'orders' })).toMatchObject({
      DelaySeconds: 5,
      VisibilityTimeout: 361,
    });
    template.hasResource('AWS::SQS::Queue', { Properties: { QueueName: 'given-up' }, DeletionPolicy: 'Delete' });
    expect(only(template, 'AWS::DynamoDB::Table')).toMatchObject({
      TableName: 'scores',
      ProvisionedThroughput: { ReadCapacityUnits: 7 },
      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
      KeySchema: [{ AttributeName: 'messageId', KeyType: 'HASH' }],
    });
  });

  it('takes what is undefined in props that are handed on as not given', () => {
    const nothing = { removalPolicy: undefined, queueName: undefined };
    const ours = { results: ['table'] } as const;
    const given = {
      compute: lambdaCompute({ functionProps: { description: undefined, functionName: undefined } }),
      queueProps: nothing,
      deadLetterQueueProps: nothing,
      tableProps: { removalPolicy: undefined, billingMode: undefined, pointInTimeRecoverySpecification: undefined },
      alarmThresholds: { retriedPercent: undefined },
      tuning: { maxBatchRows: undefined, deadlineMargin: undefined },
    };
    expect(templateOf(createScoring({ ...ours, ...given })).toJSON()).toEqual(templateOf(createScoring(ours)).toJSON());
  });

  it('takes a scope for the outputs of a second deployment in a stack', () => {
    const first = createScoring();
    const stack = Stack.of(first);
    const image = { repository: Repository.fromRepositoryName(stack, 'Others', 'scoring'), tagOrDigest: 'v1' };
    const second = new BatchScoring(stack, 'Second', { image });
    first.addClientOutputs();
    second.addClientOutputs(new Construct(second, 'Outputs'));
    const outputs = Object.keys(templateOf(first).findOutputs('*')).toSorted();
    expect(outputs.filter((name) => name.includes('requestQueueUrl'))).toEqual([
      expect.stringMatching(/^SecondOutputsrequestQueueUrl/),
      'requestQueueUrl',
    ]);
  });

  it.each<readonly [name: string, compute: (vpc: Vpc) => Partial<BatchScoringProps<Compute>>, makesVpc: boolean]>([
    ['a function in a network', (vpc) => ({ compute: lambdaCompute({ vpc }) }), false],
    ['a function on GPUs', () => ({ compute: lambdaGpuCompute() }), true],
    ['a service', () => ({ compute: ecsCompute() }), true],
    ['a service on Managed Instances', () => ({ compute: ecsGpuCompute() }), true],
  ])('lets %s be connected, and shows its network', (_, propsOf, makesVpc) => {
    const stack = createStack();
    const given = new Vpc(stack, 'Network');
    const scoring = createScoring<Compute>(propsOf(given), stack);
    const { vpc = given } = scoring.compute;
    expect(vpc === given).toBe(!makesVpc);
    const database = new SecurityGroup(stack, 'Database', { vpc, description: 'of a database' });
    scoring.connections.allowTo(database, Port.tcp(5432));
    templateOf(scoring).hasResourceProperties('AWS::EC2::SecurityGroupIngress', { FromPort: 5432 });
  });

  it('says why a compute that is in no network cannot be connected', () => {
    expect(errorOf(() => createScoring().connections)).toMatchObject({
      message:
        'Test/Scoring: connections: expected a compute in a network, got one that is in none; give lambdaCompute a vpc',
    });
  });
});
