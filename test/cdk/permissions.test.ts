import { describe, expect, it } from '@jest/globals';
import { Duration } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { lambdaCompute, lambdaGpuCompute, type ResultStore } from '../../infra/index.ts';
import { createScoring, createStack, templateOf } from '../helpers/stacks.ts';
import {
  actionsOf,
  actionsOfRole,
  arnIn,
  grantsOf,
  policiesOf,
  resourcesOf,
  roleIn,
  statementsIn,
} from './policies.ts';

/** Why a statement may stand for every resource: AWS lets it be no narrower. */
const WILDCARDS: Readonly<Record<string, string>> = {
  'key policy kms:*': "in a key's policy * is the key itself; this is the account's access to its own key",
  'key policy kms:Decrypt,kms:DescribeKey,kms:Encrypt,kms:GenerateDataKey*,kms:ReEncrypt*':
    "in a key's policy * is the key itself; CloudWatch Logs may use it for log groups of this account",
};

const KINDS = { lambda: lambdaCompute, 'lambda-gpu': lambdaGpuCompute };
const STORES: readonly (readonly ResultStore[])[] = [['queue'], ['table'], ['bucket'], ['queue', 'table', 'bucket']];
const CASES = Object.entries(KINDS).flatMap(([kind, compute]) =>
  STORES.flatMap((results) => [true, false].map((kms) => ({ kind, compute, results, kms }))),
);

describe('no statement allows more than it must', () => {
  it.each(CASES)('$kind, results to $results, own key $kms', ({ compute, results, kms }) => {
    const stack = createStack();
    const encryptionKey = kms ? new Key(stack, 'Key') : undefined;
    const scoring = createScoring({ compute: compute(), results, ...(encryptionKey && { encryptionKey }) }, stack);
    scoring.grantSubmit(new Role(stack, 'Producer', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') }));
    scoring.grantCollect(new Role(stack, 'Consumer', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') }));
    scoring.grantOperate(new Role(stack, 'Operator', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') }));
    // The policy of an endpoint allows nobody anything: it limits what roles may do there.
    const allowed = statementsIn(templateOf(scoring)).filter(
      ({ kind, statement }) => kind !== 'AWS::EC2::VPCEndpoint' && statement.Effect === 'Allow',
    );
    const wild = allowed
      .filter(({ statement }) => resourcesOf(statement).includes('*'))
      .map(({ kind, statement }) => `${kind} ${actionsOf(statement).join(',')}`);
    expect(new Set(wild)).toEqual(new Set(kms ? Object.keys(WILDCARDS) : []));

    const ofRoles = allowed
      .filter(({ kind }) => kind !== 'key policy')
      .flatMap(({ statement }) => actionsOf(statement));
    expect(ofRoles.filter((action) => action.endsWith(':*') || action === '*')).toEqual([]);
  });
});

describe('the function', () => {
  const SCORING = [
    'logs:CreateLogStream',
    'logs:PutLogEvents',
    's3:GetObject',
    's3:ListBucket',
    's3:PutObject',
    'sqs:ChangeMessageVisibility',
    'sqs:DeleteMessage',
    'sqs:GetQueueAttributes',
    'sqs:GetQueueUrl',
    'sqs:ReceiveMessage',
  ];

  it.each([
    [['bucket'], []],
    [['queue'], ['sqs:SendMessage']],
    [['table'], ['dynamodb:BatchWriteItem']],
  ] as const)('may do what it does for %j, and nothing else', (results, more) => {
    const template = templateOf(createScoring({ results }));
    expect(actionsOfRole(template, 'ComputelambdaRole')).toEqual([...SCORING, ...more].toSorted());
  });

  it('delays only messages of the request queue', () => {
    const scoring = createScoring();
    const granted = grantsOf(templateOf(scoring), 'ComputelambdaRole');
    expect(granted('sqs:ChangeMessageVisibility')).toEqual([arnIn(scoring, scoring.requestQueue.queueArn)]);
    expect(granted('sqs:SendMessage')).toEqual([arnIn(scoring, scoring.resultQueue?.queueArn)]);
  });
});

describe('a producer', () => {
  it('may send requests and upload payloads, and cannot read anything', () => {
    const scoring = createScoring({ results: ['queue', 'table', 'bucket'] });
    scoring.grantSubmit(roleIn(scoring, 'Producer'));
    const template = templateOf(scoring);
    const granted = grantsOf(template, 'Producer');
    expect(actionsOfRole(template, 'Producer')).toEqual([
      's3:PutObject',
      'sqs:GetQueueAttributes',
      'sqs:GetQueueUrl',
      'sqs:SendMessage',
    ]);
    expect(granted('sqs:SendMessage')).toEqual([arnIn(scoring, scoring.requestQueue.queueArn)]);
  });
});

describe('a consumer', () => {
  it('may take results from every store, and cannot send or write anything', () => {
    const scoring = createScoring({ results: ['queue', 'table', 'bucket'] });
    scoring.grantCollect(roleIn(scoring, 'Consumer'));
    const template = templateOf(scoring);
    const granted = grantsOf(template, 'Consumer');
    expect(actionsOfRole(template, 'Consumer')).toEqual([
      'dynamodb:BatchGetItem',
      'dynamodb:GetItem',
      's3:GetObject',
      's3:ListBucket',
      'sqs:ChangeMessageVisibility',
      'sqs:DeleteMessage',
      'sqs:GetQueueAttributes',
      'sqs:GetQueueUrl',
      'sqs:ReceiveMessage',
    ]);
    expect(granted('sqs:ReceiveMessage')).toEqual([arnIn(scoring, scoring.resultQueue?.queueArn)]);
    expect(granted('dynamodb:BatchGetItem')).toEqual([arnIn(scoring, scoring.resultTable?.tableArn)]);
  });

  it('may decrypt what it takes, and a producer encrypt what it sends, with a key of your own', () => {
    const stack = createStack();
    const encryptionKey = new Key(stack, 'Key');
    const scoring = createScoring({ results: ['queue', 'table', 'bucket'], encryptionKey }, stack);
    scoring.grantCollect(roleIn(scoring, 'Consumer'));
    scoring.grantSubmit(roleIn(scoring, 'Producer'));
    const template = templateOf(scoring);
    expect(actionsOfRole(template, 'Consumer')).toContain('kms:Decrypt');
    expect(actionsOfRole(template, 'Producer')).toEqual(
      expect.arrayContaining(['kms:Encrypt', 'kms:GenerateDataKey*', 'kms:Decrypt']),
    );
  });
});

describe('an operator', () => {
  const REPAIR = [
    'sqs:CancelMessageMoveTask',
    'sqs:DeleteMessage',
    'sqs:GetQueueAttributes',
    'sqs:GetQueueUrl',
    'sqs:ListMessageMoveTasks',
    'sqs:PurgeQueue',
    'sqs:ReceiveMessage',
    'sqs:SendMessage',
    'sqs:StartMessageMoveTask',
  ];
  const SWITCH = ['lambda:GetEventSourceMapping', 'lambda:UpdateEventSourceMapping'];

  it('may redrive and empty the queues, switch the mapping, and read or write nothing else', () => {
    const scoring = createScoring({ results: ['queue', 'table', 'bucket'] });
    scoring.grantOperate(roleIn(scoring, 'Operator'));
    const template = templateOf(scoring);
    const granted = grantsOf(template, 'Operator');
    const requests = arnIn(scoring, scoring.requestQueue.queueArn);
    const dead = arnIn(scoring, scoring.deadLetterQueue?.queueArn);
    expect(actionsOfRole(template, 'Operator')).toEqual([...SWITCH, ...REPAIR]);
    for (const action of ['sqs:PurgeQueue', 'sqs:GetQueueAttributes'])
      expect(granted(action)).toEqual([requests, dead]);
    expect(granted('sqs:SendMessage')).toEqual([requests]);
    for (const action of ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:StartMessageMoveTask']) {
      expect(granted(action)).toEqual([dead]);
    }
    const [mapping] = scoring.compute.eventSourceMappings;
    for (const action of SWITCH) expect(granted(action)).toEqual([arnIn(scoring, mapping?.eventSourceMappingArn)]);
  });

  it('may do so on every shard', () => {
    const scoring = createScoring({ shards: 2 });
    scoring.grantOperate(roleIn(scoring, 'Operator'));
    const granted = grantsOf(templateOf(scoring), 'Operator');
    const requests = scoring.requestQueues.map(({ queueArn }) => arnIn(scoring, queueArn));
    const mappings = scoring.compute.eventSourceMappings.map((one) => arnIn(scoring, one.eventSourceMappingArn));
    expect(granted('sqs:SendMessage')).toEqual(requests);
    expect(granted('sqs:PurgeQueue')).toEqual([...requests, arnIn(scoring, scoring.deadLetterQueue?.queueArn)]);
    expect(granted('lambda:UpdateEventSourceMapping')).toEqual(mappings);
    expect([requests.length, mappings.length]).toEqual([2, 2]);
  });

  it.each(Object.entries(KINDS))('may not lead the mapping of %s to another function', (_, compute) => {
    const scoring = createScoring({ compute: compute() });
    scoring.grantOperate(roleIn(scoring, 'Operator'));
    const { functionArn } = scoring.compute.function;
    const switching = policiesOf(templateOf(scoring), 'Operator').filter((statement) =>
      actionsOf(statement).includes('lambda:UpdateEventSourceMapping'),
    );
    expect(switching).toHaveLength(1);
    expect(switching[0]).toMatchObject({
      Condition: {
        ArnLike: { 'lambda:FunctionArn': [functionArn, `${functionArn}:*`].map((arn) => arnIn(scoring, arn)) },
      },
    });
  });

  it('may decrypt dead letters and encrypt what goes back, with a key of your own', () => {
    const stack = createStack();
    const encryptionKey = new Key(stack, 'Key');
    const scoring = createScoring({ encryptionKey }, stack);
    scoring.grantOperate(roleIn(scoring, 'Operator'));
    const actions = actionsOfRole(templateOf(scoring), 'Operator');
    expect(actions.filter((action) => action.startsWith('kms:'))).toEqual(['kms:Decrypt', 'kms:GenerateDataKey']);
  });

  it('may use the key that was given with existing queues, and the one that was used before', () => {
    const stack = createStack();
    const encryptionKey = new Key(stack, 'Key');
    const formerEncryptionKey = new Key(stack, 'Former');
    const visibilityTimeout = Duration.minutes(7);
    const [orders, dead] = ['orders', 'dead'].map((name) =>
      Queue.fromQueueArn(stack, name, `arn:aws:sqs:eu-central-1:123456789012:${name}`),
    );
    if (orders === undefined) throw new Error('expected a queue');
    const requestQueue = { queue: orders, visibilityTimeout, deadLetterQueue: dead };
    const scoring = createScoring({ requestQueue, encryptionKey, formerEncryptionKey }, stack);
    scoring.grantOperate(roleIn(scoring, 'Operator'));
    const granted = grantsOf(templateOf(scoring), 'Operator');
    expect(granted('kms:GenerateDataKey')).toEqual([arnIn(scoring, encryptionKey.keyArn)]);
    expect(granted('kms:Decrypt')).toEqual(
      [formerEncryptionKey, encryptionKey].map(({ keyArn }) => arnIn(scoring, keyArn)),
    );
  });

  it('may empty and switch an existing queue that was given without dead letters', () => {
    const stack = createStack();
    const visibilityTimeout = Duration.minutes(7);
    const queue = new Queue(stack, 'Orders', { visibilityTimeout });
    const scoring = createScoring({ requestQueue: { queue, visibilityTimeout } }, stack);
    scoring.grantOperate(roleIn(scoring, 'Operator'));
    expect(actionsOfRole(templateOf(scoring), 'Operator')).toEqual([
      ...SWITCH,
      'sqs:GetQueueAttributes',
      'sqs:GetQueueUrl',
      'sqs:PurgeQueue',
    ]);
  });
});
