import { describe, expect, it } from '@jest/globals';
import { Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { type BatchScoring, lambdaCompute, lambdaGpuCompute, type ResultStore } from '../../infra/index.ts';
import { createScoring, createStack, templateOf } from './setup.ts';

interface Statement {
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource?: unknown;
  readonly Principal?: unknown;
}

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
    const allowed = statementsIn(templateOf(scoring)).filter(({ statement }) => statement.Effect === 'Allow');
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

  it('puts its objects under its own prefixes, and reads payloads under any key', () => {
    const scoring = createScoring({ results: ['bucket'] });
    const granted = grantsOf(templateOf(scoring), 'ComputelambdaRole');
    const { payloadBucket, resultBucket } = scoring;
    expect(granted('s3:GetObject')).toEqual([arnIn(scoring, `${payloadBucket.bucketArn}/*`)]);
    expect(granted('s3:ListBucket')).toEqual([arnIn(scoring, payloadBucket.bucketArn)]);
    expect(granted('s3:PutObject')).toEqual([
      arnIn(scoring, `${payloadBucket.bucketArn}/payloads/*`),
      arnIn(scoring, `${resultBucket?.bucketArn}/results/*`),
    ]);
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
    expect(granted('s3:PutObject')).toEqual([arnIn(scoring, `${scoring.payloadBucket.bucketArn}/*`)]);
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
    expect(granted('s3:GetObject')).toEqual([
      arnIn(scoring, `${scoring.payloadBucket.bucketArn}/*`),
      arnIn(scoring, `${scoring.resultBucket?.bucketArn}/*`),
    ]);
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

function roleIn(scoring: BatchScoring, id: string): Role {
  return new Role(Stack.of(scoring), id, { assumedBy: new ServicePrincipal('ec2.amazonaws.com') });
}

function arnIn(scoring: BatchScoring, arn: string | undefined): unknown {
  return Stack.of(scoring).resolve(arn);
}

const POLICY_KINDS = {
  'AWS::IAM::Policy': 'policy',
  'AWS::IAM::ManagedPolicy': 'policy',
  'AWS::SQS::QueuePolicy': 'queue policy',
  'AWS::S3::BucketPolicy': 'bucket policy',
};

/** Every statement of a template, wherever it stands. */
function statementsIn(template: Template): { readonly kind: string; readonly statement: Statement }[] {
  const resources: Record<string, { Type: string; Properties: Record<string, never> }> = template.toJSON().Resources;
  return Object.values(resources).flatMap(({ Type, Properties = {} }) => [
    ...statementsOf(POLICY_KINDS[Type as keyof typeof POLICY_KINDS] ?? Type, Properties.PolicyDocument),
    ...statementsOf('key policy', Properties.KeyPolicy),
    ...(Properties.Policies ?? ([] as { PolicyDocument: never }[])).flatMap((policy: { PolicyDocument: never }) =>
      statementsOf('inline policy', policy.PolicyDocument),
    ),
  ]);
}

function statementsOf(kind: string, document: { readonly Statement: readonly Statement[] } | undefined) {
  return (document?.Statement ?? []).map((statement) => ({ kind, statement }));
}

function actionsOf({ Action }: Statement): string[] {
  return [Action].flat().toSorted();
}

function resourcesOf({ Resource }: Statement): unknown[] {
  return [Resource].flat();
}

/** The policies of the role whose logical ID holds this word. */
function policiesOf(template: Template, role: string): Statement[] {
  return Object.values(template.findResources('AWS::IAM::Policy'))
    .filter(({ Properties }) => JSON.stringify(Properties.Roles).includes(role))
    .flatMap(({ Properties }) => Properties.PolicyDocument.Statement);
}

function actionsOfRole(template: Template, role: string): string[] {
  return [...new Set(policiesOf(template, role).flatMap(actionsOf))].toSorted();
}

function grantsOf(template: Template, role: string): (action: string) => unknown[] {
  return (action) =>
    policiesOf(template, role)
      .filter((statement) => actionsOf(statement).includes(action))
      .flatMap(resourcesOf);
}
