import { describe, expect, it } from '@jest/globals';
import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { Match } from 'aws-cdk-lib/assertions';
import { AttributeType, Table } from 'aws-cdk-lib/aws-dynamodb';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket, type IBucket } from 'aws-cdk-lib/aws-s3';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { BatchScoring, type BatchScoringProps, lambdaGpuCompute, type ResultStore } from '../../infra/index.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { createScoring, createStack, environmentIn, only, synthesize, templateOf } from '../helpers/stacks.ts';

const ALL: readonly ResultStore[] = ['queue', 'table', 'bucket'];
const OWN_KEYS = [CONFIG_KEYS.resultQueueUrl, CONFIG_KEYS.resultTable, CONFIG_KEYS.resultBucket];

describe('results', () => {
  it.each([
    [['queue'], { queues: 3, tables: 0, buckets: 1 }, [CONFIG_KEYS.resultQueueUrl]],
    [['table'], { queues: 2, tables: 1, buckets: 1 }, [CONFIG_KEYS.resultTable]],
    [['bucket'], { queues: 2, tables: 0, buckets: 2 }, [CONFIG_KEYS.resultBucket]],
    [ALL, { queues: 3, tables: 1, buckets: 2 }, OWN_KEYS],
  ] as const)('to %j get these stores, and the runtime is told of them', (results, counts, keys) => {
    const template = synthesize({ results });
    template.resourceCountIs('AWS::SQS::Queue', counts.queues);
    template.resourceCountIs('AWS::DynamoDB::Table', counts.tables);
    template.resourceCountIs('AWS::S3::Bucket', counts.buckets);
    const environment = environmentIn(template);
    expect(environment[CONFIG_KEYS.results]).toBe(results.join(','));
    expect(OWN_KEYS.filter((key) => environment[key] !== undefined)).toEqual(keys);
    expect(environment[CONFIG_KEYS.payloadBucket]).toBeDefined();
  });

  it('lie in the table under messageId until expiresAt', () => {
    expect(
      only(synthesize({ results: ['table'], resultTtl: Duration.seconds(3600) }), 'AWS::DynamoDB::Table'),
    ).toMatchObject({
      KeySchema: [{ AttributeName: 'messageId', KeyType: 'HASH' }],
      AttributeDefinitions: [{ AttributeName: 'messageId', AttributeType: 'S' }],
      TimeToLiveSpecification: { AttributeName: 'expiresAt', Enabled: true },
      PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
    });
  });

  it('of clients go to a queue each, which the runtime, the outputs, consumers and the alarm know', () => {
    const stack = createStack();
    const scoring = createScoring({ clientQueues: ['web', 'reports'] }, stack);
    scoring.addClientOutputs();
    const consumer = new Role(stack, 'Consumer', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    scoring.grantCollect(consumer);
    const template = templateOf(stack);
    template.resourceCountIs('AWS::SQS::Queue', 5);
    expect(Object.keys(scoring.clientQueues)).toEqual(['web', 'reports']);
    expect(
      JSON.stringify(environmentIn(template)[CONFIG_KEYS.clientQueueUrls]).match(/Results(Web|Reports)/g),
    ).toHaveLength(2);
    template.hasOutput('resultQueueUrlWeb', {});
    template.hasOutput('resultQueueUrlReports', {});
    const statements = JSON.stringify(template.findResources('AWS::IAM::Policy'));
    for (const action of ['sqs:SendMessage', 'sqs:ReceiveMessage']) expect(statements).toContain(action);
    expect(statements.match(/ResultsWeb/g)?.length).toBeGreaterThanOrEqual(2);
    expect(JSON.stringify(template.findResources('AWS::CloudWatch::Alarm'))).toMatch(
      /ResultsWeb.*ResultsReports|ResultsReports.*ResultsWeb/s,
    );
  });

  it('go to existing stores', () => {
    const stack = createStack();
    const stores = {
      resultQueue: new Queue(stack, 'Scores'),
      resultTable: new Table(stack, 'Kept', { partitionKey: { name: 'messageId', type: AttributeType.STRING } }),
      resultBucket: new Bucket(stack, 'Archive'),
    };
    const payloadBucket = new Bucket(stack, 'Large');
    const template = templateOf(createScoring({ results: ALL, stores, payloadBucket }, stack));
    template.resourceCountIs('AWS::DynamoDB::Table', 1);
    template.resourceCountIs('AWS::S3::Bucket', 2);
    const idOf = (child: { node: { defaultChild?: unknown } }) => stack.getLogicalId(child.node.defaultChild as never);
    expect(environmentIn(template)).toMatchObject({
      [CONFIG_KEYS.resultQueueUrl]: { Ref: idOf(stores.resultQueue) },
      [CONFIG_KEYS.resultTable]: { Ref: idOf(stores.resultTable) },
      [CONFIG_KEYS.resultBucket]: { Ref: idOf(stores.resultBucket) },
      [CONFIG_KEYS.payloadBucket]: { Ref: idOf(payloadBucket) },
    });
  });
});

describe('the queues', () => {
  it('give messages up to the dead letters after twenty receives, so that they outlast an hour, and tell the host', () => {
    const queue = only(synthesize(), 'AWS::SQS::Queue', { RedrivePolicy: {} });
    expect(queue.RedrivePolicy).toMatchObject({ maxReceiveCount: 20 });
    expect(environmentIn(synthesize())[CONFIG_KEYS.maxReceiveCount]).toBe('20');
  });

  it('have high throughput where they are FIFO, the dead letters too, and else no word of it', () => {
    const highThroughput = { DeduplicationScope: 'messageGroup', FifoThroughputLimit: 'perMessageGroupId' };
    synthesize({ fifo: true, shards: 2 }).allResourcesProperties('AWS::SQS::Queue', highThroughput);
    for (const { Properties } of Object.values(synthesize().findResources('AWS::SQS::Queue'))) {
      for (const name of Object.keys(highThroughput)) expect(Properties).not.toHaveProperty(name);
    }
  });

  it('follow an existing FIFO queue', () => {
    const stack = createStack();
    const queue = new Queue(stack, 'Orders', { fifo: true, visibilityTimeout: Duration.seconds(400) });
    const template = templateOf(
      createScoring({ requestQueue: { queue, visibilityTimeout: Duration.seconds(400) } }, stack),
    );
    template.resourceCountIs('AWS::SQS::Queue', 2);
    template.allResourcesProperties('AWS::SQS::Queue', { FifoQueue: true });
    expect(only(template, 'AWS::Lambda::EventSourceMapping')).toMatchObject({
      BatchSize: 10,
      EventSourceArn: { 'Fn::GetAtt': [stack.getLogicalId(queue.node.defaultChild as never), 'Arn'] },
    });
  });
});

describe('everything that is stored', () => {
  const REFUSES_PLAIN_TEXT = Match.objectLike({
    PolicyDocument: {
      Statement: Match.arrayWith([
        Match.objectLike({ Effect: 'Deny', Condition: { Bool: { 'aws:SecureTransport': 'false' } } }),
      ]),
    },
  });

  it('is reached over TLS alone', () => {
    const template = synthesize({ results: ALL });
    template.resourceCountIs('AWS::SQS::QueuePolicy', 3);
    template.resourceCountIs('AWS::S3::BucketPolicy', 2);
    template.allResourcesProperties('AWS::SQS::QueuePolicy', REFUSES_PLAIN_TEXT);
    template.allResourcesProperties('AWS::S3::BucketPolicy', REFUSES_PLAIN_TEXT);
  });

  it('is encrypted by its service', () => {
    const template = synthesize({ results: ALL });
    template.allResourcesProperties('AWS::SQS::Queue', { SqsManagedSseEnabled: true });
    template.allResourcesProperties('AWS::S3::Bucket', {
      BucketEncryption: {
        ServerSideEncryptionConfiguration: [{ ServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } }],
      },
    });
  });

  it('is encrypted with the key that is given, the environment and every log too', () => {
    const stack = createStack();
    const key = new Key(stack, 'Key');
    const template = templateOf(
      createScoring({ results: ALL, encryptionKey: key, compute: lambdaGpuCompute() }, stack),
    );
    const arn = stack.resolve(key.keyArn);
    template.allResourcesProperties('AWS::SQS::Queue', { KmsMasterKeyId: arn });
    template.allResourcesProperties('AWS::S3::Bucket', {
      BucketEncryption: {
        ServerSideEncryptionConfiguration: [
          { BucketKeyEnabled: true, ServerSideEncryptionByDefault: { KMSMasterKeyID: arn, SSEAlgorithm: 'aws:kms' } },
        ],
      },
    });
    template.allResourcesProperties('AWS::DynamoDB::Table', {
      SSESpecification: { KMSMasterKeyId: arn, SSEEnabled: true, SSEType: 'KMS' },
    });
    template.allResourcesProperties('AWS::Logs::LogGroup', { KmsKeyId: arn });
    expect(only(template, 'AWS::Lambda::Function', { PackageType: 'Image' })).toMatchObject({ KmsKeyArn: arn });
  });

  it.each([
    [undefined, 'Retain', 'Retain'],
    [RemovalPolicy.RETAIN, 'Retain', 'Retain'],
    [RemovalPolicy.DESTROY, 'Delete', 'Delete'],
    [RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE, 'RetainExceptOnCreate', 'Retain'],
  ])(
    'stays or goes with the stack, or when it is replaced (removalPolicy %s: %s, %s)',
    (removalPolicy, onDelete, onReplace) => {
      const template = synthesize({ results: ALL, ...(removalPolicy !== undefined && { removalPolicy }) });
      const policies = { DeletionPolicy: onDelete, UpdateReplacePolicy: onReplace };
      for (const type of ['AWS::S3::Bucket', 'AWS::DynamoDB::Table', 'AWS::Logs::LogGroup']) {
        template.allResources(type, policies);
      }
      const queues = template.findResources('AWS::SQS::Queue');
      const kept = Object.values(queues).filter(({ Properties }) => Properties.RedrivePolicy === undefined);
      expect(kept).toMatchObject([policies, policies]);
      const [requests] = Object.values(queues).filter(({ Properties }) => Properties.RedrivePolicy !== undefined);
      expect(requests).toMatchObject({ DeletionPolicy: 'Delete', UpdateReplacePolicy: onReplace });
    },
  );
});

it('the outputs of two deployments need two scopes', () => {
  const stack = createStack();
  const scoring = createScoring({}, stack);
  const second = new BatchScoring(stack, 'Second', { image: scoring.image });
  scoring.addClientOutputs();
  expect(() => second.addClientOutputs()).toThrow(
    'Test/Second: addClientOutputs: expected a scope without outputs of another deployment, got one that has them; give',
  );
});

it('what the client needs is put out under the names of its options, without prefixes of new buckets', () => {
  const scoring = createScoring({ results: ALL });
  scoring.addClientOutputs();
  expect(Object.keys(templateOf(scoring).toJSON().Outputs).toSorted()).toEqual([
    'deadLetterQueueUrl',
    'payloadBucket',
    'region',
    'requestQueueUrl',
    'resultBucket',
    'resultQueueUrl',
    'resultTable',
  ]);
});

describe('the prefix of keys', () => {
  const PREFIXES = ['payloadPrefix', 'resultPrefix'] as const;

  it.each<[string, (bucket: IBucket) => Partial<BatchScoringProps>, object]>([
    ['new buckets', () => ({ keyPrefix: undefined }), {}],
    ['the payload bucket', (bucket) => ({ payloadBucket: bucket }), { payloadPrefix: 'fraud/' }],
    ['the result bucket', (bucket) => ({ stores: { resultBucket: bucket } }), { resultPrefix: 'fraud/' }],
  ])('is what was given in a bucket that exists already, and only there: %s', (_, propsOf, expected) => {
    const stack = createStack();
    const bucket = new Bucket(stack, 'Shared');
    const scoring = createScoring({ results: ['bucket'], keyPrefix: 'fraud/', ...propsOf(bucket) }, stack);
    const environment = environmentIn(templateOf(scoring));
    const told = PREFIXES.map((name) => [name, environment[CONFIG_KEYS[name]]]).filter(([, prefix]) => prefix);
    expect(Object.fromEntries(told)).toEqual(expected);
    const ofClient = Object.entries(scoring.clientOptions).filter(([name]) => name.endsWith('Prefix'));
    expect(Object.fromEntries(ofClient)).toEqual(expected);
  });

  it('is one that the host takes where none was given', () => {
    const stack = createStack();
    const { clientOptions } = createScoring({ payloadBucket: new Bucket(stack, 'Shared') }, stack);
    const deployed = String(clientOptions.payloadPrefix)
      .replace(/\$\{Token\[AWS\.AccountId\.\d+\]\}/, '123456789012')
      .replace(/\$\{[^}]+\}/, 'eu-central-1');
    expect(deployed).toMatch(/^batchscore\/123456789012\/eu-central-1\/Test-Scoring-[A-Za-z0-9]+\/$/);
    const queue = 'https://sqs.eu-central-1.amazonaws.com/123456789012/requests';
    const config = loadConfig({
      [CONFIG_KEYS.requestQueueUrls]: queue,
      [CONFIG_KEYS.resultQueueUrl]: `${queue}-results`,
      [CONFIG_KEYS.payloadPrefix]: deployed,
    });
    expect(config.payloadPrefix).toBe(deployed);
  });
});

it.each<[Partial<BatchScoringProps>, unknown[]]>([
  [{}, [undefined, 30]],
  [{ payloadExpiry: Duration.days(19), resultExpiry: Duration.days(365) }, [365, 19]],
])('objects of results and payloads expire in new buckets by themselves or as they are told to: %#', (props, days) => {
  const buckets = Object.values(synthesize({ results: ['bucket'], ...props }).findResources('AWS::S3::Bucket'));
  const rules = buckets.flatMap(({ Properties }) => Properties.LifecycleConfiguration.Rules);
  expect(rules.map(({ ExpirationInDays }) => ExpirationInDays)).toEqual(days);
});
