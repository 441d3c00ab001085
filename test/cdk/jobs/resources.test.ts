import { describe, expect, it } from '@jest/globals';
import { Duration, Size, Stack } from 'aws-cdk-lib';
import { Match, type Template } from 'aws-cdk-lib/assertions';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { type BatchScoringProps, lambdaCompute } from '../../../infra/index.ts';
import { jobDefinition } from '../../../infra/jobs/jobDefinition.ts';
import { loadJobControlConfig, loadJobScoreConfig } from '../../../lambda/hosts/config.ts';
import { createScoring, createStack, deployedEnvironment, only, synthesize, templateOf } from '../../helpers/stacks.ts';

const NOTIFICATIONS = 'Custom::S3BucketNotifications';
const STATE_MACHINE = 'AWS::StepFunctions::StateMachine';
const FUNCTION = 'AWS::Lambda::Function';

/** The function of jobs with this entry of the image. */
const functionIn = (template: Template, entry: 'jobScore' | 'jobControl') =>
  only(template, FUNCTION, { ImageConfig: { Command: [`${entry}.handler`] } }) as Record<string, unknown> & {
    readonly Environment: { readonly Variables: Readonly<Record<string, unknown>> };
  };

describe('the functions of jobs', () => {
  it('run other entries of the image, as long as Lambda lets them, and one has the concurrency that it may take', () => {
    const template = synthesize({ jobs: {} });
    expect(functionIn(template, 'jobScore')).toMatchObject({
      Timeout: 900,
      MemorySize: 1769,
      ReservedConcurrentExecutions: 200,
    });
    expect(functionIn(template, 'jobControl').Timeout).toBe(900);
    expect(functionIn(template, 'jobControl')).not.toHaveProperty('ReservedConcurrentExecutions');
  });

  it('are attached to the network that jobs are given', () => {
    const stack = createStack();
    const template = templateOf(createScoring({ jobs: { vpc: new Vpc(stack, 'Network') } }, stack));
    for (const entry of ['jobScore', 'jobControl'] as const)
      expect(functionIn(template, entry).VpcConfig).toBeDefined();
  });

  it('have the room in /tmp that the deployment has, where models in S3 are fetched to', () => {
    const compute = lambdaCompute({ ephemeralStorageSize: Size.mebibytes(4096) });
    const template = synthesize({ models: `s3://ml-models/team/${'a'.repeat(64)}`, compute, jobs: {} });
    expect(functionIn(template, 'jobScore').EphemeralStorage).toEqual({ Size: 4096 });
  });

  it('leave the function that scores messages as it is', () => {
    expect(synthesize({ jobs: {} }).findResources(FUNCTION)).toMatchObject(synthesize().findResources(FUNCTION));
  });
});

describe('their environment', () => {
  const environmentOf = (entry: 'jobScore' | 'jobControl', props: Partial<BatchScoringProps>) =>
    deployedEnvironment(functionIn(synthesize(props), entry).Environment.Variables);

  it('is one that they start with', () => {
    const props = { jobs: { inputPrefix: 'a/', outputPrefix: 'b/', concurrency: 9 } };
    expect(loadJobScoreConfig(environmentOf('jobScore', props))).toMatchObject({
      jobsPartBytes: 100_663_296,
      jobsPieceBytes: 16_777_216,
    });
    const BATCHSCORE_JOBS_STATE_MACHINE = 'arn:aws:states:eu-central-1:123456789012:stateMachine:jobs';
    const environment = { ...environmentOf('jobControl', props), BATCHSCORE_JOBS_STATE_MACHINE };
    expect(loadJobControlConfig(environment)).toMatchObject({
      jobsInputPrefix: 'a/',
      jobsOutputPrefix: 'b/',
      jobsConcurrency: 9,
    });
  });

  it('has what the deployment says of models and how they run, and nothing of queues', () => {
    const amounts = {
      maxBatchRows: 64,
      maxBatchElements: 1000,
      maxRequestRows: 100,
      maxRequestsPerMessage: 10,
      maxAnswerCharacters: 5000,
      checkPercent: 3,
    };
    const others = { preload: false, allowProviderFallback: true };
    const units = { deadlineMargin: Duration.seconds(2), maxPayloadSize: Size.mebibytes(1) };
    const environment = environmentOf('jobScore', {
      defaultModel: 'tickets',
      logLevel: 'warn',
      tracing: true,
      environment: { NODE_OPTIONS: '--no-warnings' },
      tuning: { ...amounts, ...others, ...units, providers: 'cpu' },
      jobs: {},
    });
    expect(loadJobScoreConfig(environment)).toMatchObject({
      ...{ defaultModel: 'tickets', logLevel: 'warn', maxPayloadBytes: 1_048_576 },
      ...amounts,
      ...others,
      providers: ['cpu'],
    });
    expect(environment).toMatchObject({
      NODE_OPTIONS: '--no-warnings',
      BATCHSCORE_SERVICE_NAME: expect.stringMatching(/-jobs$/),
    });
    expect(Object.keys(environment).filter((name) => /QUEUE|RESULT|WINDOW/.test(name))).toEqual([]);
  });
});

describe('the state machine of jobs', () => {
  it('has the definition that the local stack walks', () => {
    const { DefinitionString } = only(synthesize({ jobs: {} }), STATE_MACHINE);
    const parts = (DefinitionString as { 'Fn::Join': [string, unknown[]] })['Fn::Join'][1];
    const text = parts.map((part) => (typeof part === 'string' ? part : 'TOKEN')).join('');
    const functions = { scoreFunctionArn: 'TOKEN', controlFunctionArn: 'TOKEN', partition: 'TOKEN' };
    expect(JSON.parse(text)).toEqual(jobDefinition(functions));
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
    const byKey = { ServerSideEncryptionByDefault: { KMSMasterKeyID: key, SSEAlgorithm: 'aws:kms' } };
    template.allResourcesProperties('AWS::S3::Bucket', {
      BucketEncryption: { ServerSideEncryptionConfiguration: [Match.objectLike(byKey)] },
    });
    for (const entry of ['jobScore', 'jobControl'] as const) expect(functionIn(template, entry).KmsKeyArn).toEqual(key);
  });
});

describe('a file that is put', () => {
  it('starts a job under the input prefix, and nowhere else', () => {
    const scoring = createScoring({ jobs: { inputPrefix: 'files/in/', outputPrefix: 'files/out/' } });
    expect(only(templateOf(scoring), NOTIFICATIONS).NotificationConfiguration).toEqual({
      LambdaFunctionConfigurations: [
        {
          Events: ['s3:ObjectCreated:*'],
          Filter: { Key: { FilterRules: [{ Name: 'prefix', Value: 'files/in/' }] } },
          LambdaFunctionArn: Stack.of(scoring).resolve(scoring.jobs?.controlFunction.functionArn),
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

it('the outputs for the client say where jobs are', () => {
  const scoring = createScoring({ jobs: { inputPrefix: 'in/', outputPrefix: 'out/', concurrency: 40 } });
  scoring.addClientOutputs();
  expect(templateOf(scoring).toJSON().Outputs).toMatchObject({
    jobInputPrefix: { Value: 'in/' },
    jobOutputPrefix: { Value: 'out/' },
    jobConcurrency: { Value: '40' },
    jobBucket: { Value: Stack.of(scoring).resolve(scoring.jobs?.bucket.bucketName) },
    jobStateMachine: {
      Value: {
        'Fn::Join': ['', expect.arrayContaining([expect.stringContaining(':stateMachine:Test-Scoring-Jobs-')])],
      },
    },
  });
});

it('a deployment without jobs has nothing of them', () => {
  const scoring = createScoring();
  expect(scoring.jobs).toBeUndefined();
  templateOf(scoring).resourceCountIs(STATE_MACHINE, 0);
  expect(Object.keys(scoring.clientOptions).filter((name) => name.startsWith('job'))).toEqual([]);
  expect(() => scoring.grantSubmitJobs(scoring)).toThrow('expected the prop jobs, got none');
});
