import { describe, expect, it } from '@jest/globals';
import { Stack } from 'aws-cdk-lib';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket, BucketEncryption } from 'aws-cdk-lib/aws-s3';
import { BatchScoring, type BatchScoringProps } from '../../infra/index.ts';
import { createScoring, createStack, imageOf, templateOf } from '../helpers/stacks.ts';
import { actionsOf, actionsOfRole, policiesOf, resourcesOf, roleIn } from './policies.ts';

const WHO = { producer: 'Producer', consumer: 'Consumer', host: 'ComputelambdaRole' };
type Who = keyof typeof WHO;

/** A deployment with a producer and a consumer. */
function deployed(props: Partial<BatchScoringProps>, stack?: Stack): BatchScoring {
  const scoring = createScoring({ results: ['queue', 'table', 'bucket'], ...props }, stack);
  scoring.grantSubmit(roleIn(scoring, WHO.producer));
  scoring.grantCollect(roleIn(scoring, WHO.consumer));
  return scoring;
}

/** Says, as IAM would, whether a role may do something to a key: get it, put it, or list what begins with it. */
function policyOf(scoring: BatchScoring) {
  const template = templateOf(scoring);
  return (who: Who, action: 'Get' | 'Put' | 'List', bucket: string, key: string): boolean => {
    const name = action === 'List' ? 's3:ListBucket' : `s3:${action}Object`;
    const resource = action === 'List' ? bucket : `${bucket}/${key}`;
    return policiesOf(template, WHO[who])
      .filter((statement) => actionsOf(statement).includes(name))
      .some((statement) => {
        const listed: unknown = (statement.Condition as { StringLike?: Record<string, unknown> })?.StringLike?.[
          's3:prefix'
        ];
        const mayList = listed === undefined || matches(flat(listed), key);
        return mayList && resourcesOf(statement).some((pattern) => matches(flat(pattern), resource));
      });
  };
}

/** IAM's `*`, in a pattern that holds no other wildcard. */
function matches(pattern: string, text: string): boolean {
  const [beginning = '', end] = pattern.split('*');
  return end === undefined ? text === pattern : text.startsWith(beginning) && text.endsWith(end);
}

/** A text of a template, in which a reference is the name of what it refers to. */
function flat(node: unknown): string {
  if (typeof node !== 'object' || node === null) return String(node);
  const [[kind, value] = []] = Object.entries(node);
  if (kind === 'Fn::Join') return value[1].map(flat).join(value[0]);
  return kind === 'Fn::GetAtt' ? value[0] : value;
}

function nameOf(scoring: BatchScoring, bucket: { readonly bucketArn: string } | undefined): string {
  return flat(Stack.of(scoring).resolve(bucket?.bucketArn));
}

describe.each([
  ['of its own', '', () => ({})],
  [
    'that exists already',
    'team/fraud/',
    (stack: Stack) => ({
      payloadBucket: new Bucket(stack, 'Shared'),
      stores: { resultBucket: new Bucket(stack, 'Lake') },
      keyPrefix: 'team/fraud/',
    }),
  ],
] as const)('in a bucket %s', (_, prefix, propsIn) => {
  const stack = createStack();
  const scoring = deployed(propsIn(stack), stack);
  const may = policyOf(scoring);
  const [payloads, results] = [scoring.payloadBucket, scoring.resultBucket].map((bucket) =>
    nameOf(scoring, bucket),
  ) as [string, string];
  const REQUEST = `${prefix}requests/1`;
  const RESULT = `${prefix}results/1`;

  it('a producer puts requests, and can do nothing else', () => {
    expect(may('producer', 'Put', payloads, REQUEST)).toBe(true);
    expect(may('producer', 'Put', payloads, RESULT)).toBe(false);
    expect(may('producer', 'Put', results, RESULT)).toBe(false);
    for (const action of ['Get', 'List'] as const) {
      for (const key of [REQUEST, RESULT]) expect(may('producer', action, payloads, key)).toBe(false);
    }
  });

  it('the host reads requests and puts results, and not the other way round', () => {
    for (const action of ['Get', 'List'] as const) {
      expect(may('host', action, payloads, REQUEST)).toBe(true);
      expect(may('host', action, payloads, RESULT)).toBe(false);
      expect(may('host', action, results, RESULT)).toBe(false);
    }
    expect(may('host', 'Put', payloads, RESULT)).toBe(true);
    expect(may('host', 'Put', results, RESULT)).toBe(true);
    expect(may('host', 'Put', payloads, REQUEST)).toBe(false);
  });

  it('a consumer reads results, and can do nothing else', () => {
    for (const action of ['Get', 'List'] as const) {
      for (const bucket of [payloads, results]) expect(may('consumer', action, bucket, RESULT)).toBe(true);
      expect(may('consumer', action, payloads, REQUEST)).toBe(false);
    }
    for (const key of [REQUEST, RESULT]) expect(may('consumer', 'Put', payloads, key)).toBe(false);
  });

  it('nobody reaches, or lists, what lies elsewhere', () => {
    const elsewhere = [
      '1',
      '',
      `${prefix}1`,
      prefix,
      `${prefix}requests`,
      `${prefix}requests-2/1`,
      `${prefix}results.old/1`,
    ];
    const ofOthers =
      prefix === '' ? ['a/requests/1', 'a/results/1'] : ['requests/1', 'results/1', 'team/fraud-2/results/1'];
    for (const who of Object.keys(WHO) as Who[]) {
      for (const action of ['Get', 'Put', 'List'] as const) {
        for (const bucket of [payloads, results]) {
          for (const key of [...elsewhere, ...ofOthers]) {
            expect([who, action, key, may(who, action, bucket, key)]).toEqual([who, action, key, false]);
          }
        }
      }
    }
  });
});

describe('two deployments that share a bucket', () => {
  it('have different prefixes, each for payloads and results', () => {
    const stack = createStack();
    const payloadBucket = new Bucket(stack, 'Shared');
    const props = {
      image: imageOf(stack),
      payloadBucket,
      results: ['bucket'],
      stores: { resultBucket: payloadBucket },
    } as const;
    const [one, other] = [new BatchScoring(stack, 'One', props), new BatchScoring(stack, 'Other', props)];
    const prefixOf = ({ clientOptions }: BatchScoring) => flat(stack.resolve(clientOptions.payloadPrefix));

    expect(prefixOf(one)).toMatch(/^batchscore\/AWS::AccountId\/AWS::Region\/Test-One-[A-Za-z0-9]+\/$/);
    expect(prefixOf(other)).not.toBe(prefixOf(one));
    expect(flat(stack.resolve(one.clientOptions.resultPrefix))).toBe(prefixOf(one));
  });
});

describe('a bucket with a key of its own', () => {
  it('lets a producer encrypt, a consumer decrypt, and neither the other', () => {
    const stack = createStack();
    const payloadBucket = new Bucket(stack, 'Shared', {
      encryption: BucketEncryption.KMS,
      encryptionKey: new Key(stack, 'Key'),
    });
    const template = templateOf(deployed({ payloadBucket, results: ['queue'] }, stack));
    const keyActions = (who: Who) => actionsOfRole(template, WHO[who]).filter((action) => action.startsWith('kms:'));
    expect(keyActions('producer')).toEqual(['kms:GenerateDataKey']);
    expect(keyActions('consumer')).toEqual(['kms:Decrypt']);
    expect(keyActions('host')).toEqual(['kms:Decrypt', 'kms:GenerateDataKey']);
  });
});
