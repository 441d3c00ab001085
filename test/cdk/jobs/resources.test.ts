import { describe, expect, it } from '@jest/globals';
import { Size, Stack } from 'aws-cdk-lib';
import { Match } from 'aws-cdk-lib/assertions';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { jobDefinition } from '../../../infra/jobs/jobDefinition.ts';
import { createScoring, createStack, only, synthesize, templateOf } from '../../helpers/stacks.ts';
import { definitionIn, functionIn } from './setup.ts';

const NOTIFICATIONS = 'Custom::S3BucketNotifications';
const STATE_MACHINE = 'AWS::StepFunctions::StateMachine';

describe('the functions of jobs', () => {
  it('run other entries of the image, as long as Lambda lets them, and one has the concurrency that it may take', () => {
    const template = synthesize({ jobs: {} });
    const score = functionIn(template, 'jobScore.handler');
    const control = functionIn(template, 'jobControl.handler');
    expect([score.Timeout, control.Timeout]).toEqual([900, 900]);
    expect([score.MemorySize, score.ReservedConcurrentExecutions]).toEqual([1769, 200]);
    expect(control.ReservedConcurrentExecutions).toBeUndefined();
  });

  it('know the models and how they run, and nothing of queues', () => {
    const { Environment } = functionIn(
      synthesize({
        jobs: { partSize: Size.mebibytes(32) },
        defaultModel: 'tickets',
        tuning: { maxBatchRows: 64, checkPercent: 3 },
        environment: { NODE_OPTIONS: '--no-warnings' },
        logLevel: 'debug',
      }),
      'jobScore.handler',
    );
    expect(Environment.Variables).toEqual({
      BATCHSCORE_DEFAULT_MODEL: 'tickets',
      BATCHSCORE_MAX_BATCH_ROWS: '64',
      BATCHSCORE_CHECK_PERCENT: '3',
      BATCHSCORE_LOG_LEVEL: 'debug',
      BATCHSCORE_SERVICE_NAME: expect.stringMatching(/-jobs$/),
      BATCHSCORE_JOBS_PART_BYTES: String(32 * 1024 * 1024),
      BATCHSCORE_JOBS_PIECE_BYTES: String(16 * 1024 * 1024),
      NODE_OPTIONS: '--no-warnings',
      ORT_DISABLE_TELEMETRY: '1',
    });
  });

  it('are attached to the network that jobs are given', () => {
    const stack = createStack();
    const template = templateOf(createScoring({ jobs: { vpc: new Vpc(stack, 'Network') } }, stack));
    for (const command of ['jobScore.handler', 'jobControl.handler']) {
      expect(functionIn(template, command).VpcConfig).toBeDefined();
    }
  });

  it('leave the function that scores messages as it is', () => {
    const without = synthesize().findResources('AWS::Lambda::Function');
    const functions = synthesize({ jobs: {} }).findResources('AWS::Lambda::Function');
    for (const [id, scoring] of Object.entries(without)) expect(functions[id]).toEqual(scoring);
  });
});

describe('the state machine of jobs', () => {
  it('has the definition that the local stack walks', () => {
    const functions = { scoreFunctionArn: 'TOKEN', controlFunctionArn: 'TOKEN', partition: 'TOKEN' };
    expect(definitionIn(synthesize({ jobs: {} }))).toEqual(jobDefinition(functions));
  });

  it('logs errors alone, without what executions hold, and is traced where the deployment is', () => {
    const states = only(synthesize({ jobs: {} }), STATE_MACHINE);
    expect(states).toMatchObject({ LoggingConfiguration: { Level: 'ERROR', IncludeExecutionData: false } });
    expect(states).not.toHaveProperty('TracingConfiguration');
    const traced = only(synthesize({ jobs: {}, tracing: true }), STATE_MACHINE);
    expect(traced).toMatchObject({ TracingConfiguration: { Enabled: true } });
  });

  it('is encrypted with the key of the deployment, as the bucket, the logs and the functions are', () => {
    const stack = createStack();
    const encryptionKey = new Key(stack, 'Key');
    const template = templateOf(createScoring({ jobs: {}, encryptionKey }, stack));
    const key = stack.resolve(encryptionKey.keyArn);
    template.hasResourceProperties(STATE_MACHINE, { EncryptionConfiguration: { KmsKeyId: key } });
    template.allResourcesProperties('AWS::Logs::LogGroup', { KmsKeyId: key });
    template.allResourcesProperties('AWS::S3::Bucket', {
      BucketEncryption: {
        ServerSideEncryptionConfiguration: [
          Match.objectLike({ ServerSideEncryptionByDefault: { KMSMasterKeyID: key, SSEAlgorithm: 'aws:kms' } }),
        ],
      },
    });
    const functions = Object.values(
      template.findResources('AWS::Lambda::Function', { Properties: { PackageType: 'Image' } }),
    );
    expect(functions.map(({ Properties }) => Properties.KmsKeyArn)).toEqual([key, key, key]);
  });
});

describe('a file that is put', () => {
  const told = (template: ReturnType<typeof synthesize>) => only(template, NOTIFICATIONS).NotificationConfiguration;

  it('starts a job under the input prefix, and nowhere else', () => {
    const scoring = createScoring({ jobs: { inputPrefix: 'files/in/', outputPrefix: 'files/out/' } });
    const target = Stack.of(scoring).resolve(scoring.jobs?.controlFunction.functionArn);
    expect(told(templateOf(scoring))).toEqual({
      LambdaFunctionConfigurations: [
        {
          Events: ['s3:ObjectCreated:*'],
          Filter: { Key: { FilterRules: [{ Name: 'prefix', Value: 'files/in/' }] } },
          LambdaFunctionArn: target,
        },
      ],
    });
  });

  it('does so in an existing bucket too, of which other notifications stay', () => {
    const stack = createStack();
    const bucket = Bucket.fromBucketName(stack, 'Files', 'files');
    const template = templateOf(createScoring({ jobs: { bucket } }, stack));
    expect(only(template, NOTIFICATIONS)).toMatchObject({ BucketName: 'files', Managed: false });
    template.hasResourceProperties('AWS::Lambda::Permission', {
      Principal: 's3.amazonaws.com',
      SourceAccount: { Ref: 'AWS::AccountId' },
      SourceArn: { 'Fn::Join': ['', ['arn:', { Ref: 'AWS::Partition' }, ':s3:::files']] },
    });
    template.resourceCountIs('AWS::S3::Bucket', 1);
  });
});

describe('the outputs for the client', () => {
  it('say where jobs are, if there are any', () => {
    const scoring = createScoring({ jobs: { inputPrefix: 'in/', outputPrefix: 'out/', concurrency: 40 } });
    scoring.addClientOutputs();
    const outputs = templateOf(scoring).toJSON().Outputs;
    expect(outputs.jobInputPrefix.Value).toBe('in/');
    expect(outputs.jobOutputPrefix.Value).toBe('out/');
    expect(outputs.jobConcurrency.Value).toBe('40');
    expect(outputs.jobBucket.Value).toEqual(Stack.of(scoring).resolve(scoring.jobs?.bucket.bucketName));
    expect(JSON.stringify(outputs.jobStateMachine.Value)).toContain(':stateMachine:Test-Scoring-Jobs-');
    expect(Object.keys(createScoring().clientOptions).filter((name) => name.startsWith('job'))).toEqual([]);
  });
});

describe('a deployment without jobs', () => {
  it('has nothing of them', () => {
    const scoring = createScoring();
    expect(scoring.jobs).toBeUndefined();
    templateOf(scoring).resourceCountIs(STATE_MACHINE, 0);
    expect(() => scoring.grantSubmitJobs(scoring)).toThrow('expected the prop jobs, got none');
  });
});
