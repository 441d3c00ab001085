import { describe, expect, it } from '@jest/globals';
import { Duration } from 'aws-cdk-lib';
import { Bucket, type IBucket } from 'aws-cdk-lib/aws-s3';
import type { BatchScoringProps } from '../../infra/index.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { createScoring, createStack, environmentIn, synthesize, templateOf } from '../helpers/stacks.ts';

type Props = Partial<BatchScoringProps>;

/** A deployment in a stack that has a bucket already. */
function withBucket(propsOf: (bucket: IBucket) => Props) {
  const stack = createStack();
  return createScoring(propsOf(new Bucket(stack, 'Shared')), stack);
}

describe('the prefix of keys', () => {
  it('is none in new buckets, of which nobody is told', () => {
    const scoring = createScoring({ results: ['bucket'] });
    expect(scoring.clientOptions).not.toHaveProperty('payloadPrefix');
    expect(scoring.clientOptions).not.toHaveProperty('resultPrefix');
    const environment = environmentIn(templateOf(scoring));
    expect(environment).not.toHaveProperty(CONFIG_KEYS.payloadPrefix);
    expect(environment).not.toHaveProperty(CONFIG_KEYS.resultPrefix);
  });

  it.each<[string, (bucket: IBucket) => Props, object]>([
    ['the payload bucket', (bucket) => ({ payloadBucket: bucket }), { payloadPrefix: 'fraud/' }],
    ['the result bucket', (bucket) => ({ stores: { resultBucket: bucket } }), { resultPrefix: 'fraud/' }],
  ])('is what was given in %s that exists already, and only there', (_, propsOf, expected) => {
    const scoring = withBucket((bucket) => ({ results: ['bucket'], keyPrefix: 'fraud/', ...propsOf(bucket) }));
    const NONE = { payloadPrefix: undefined, resultPrefix: undefined };
    const environment = environmentIn(templateOf(scoring));
    const [payloadPrefix, resultPrefix] = [CONFIG_KEYS.payloadPrefix, CONFIG_KEYS.resultPrefix].map(
      (key) => environment[key],
    );
    expect({ payloadPrefix, resultPrefix }).toEqual({ ...NONE, ...expected });
    expect(scoring.clientOptions).toMatchObject(expected);
    expect(Object.keys(scoring.clientOptions).filter((key) => key.endsWith('Prefix'))).toEqual(Object.keys(expected));
  });

  it('is one that the host takes where none was given', () => {
    const stack = createStack();
    const prefix = String(
      createScoring({ payloadBucket: new Bucket(stack, 'Shared') }, stack).clientOptions.payloadPrefix,
    );
    const deployed = prefix
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

describe('objects', () => {
  const expiryIn = (props: Props): unknown[] =>
    Object.values(synthesize({ results: ['bucket'], ...props }).findResources('AWS::S3::Bucket'))
      .map(({ Properties }) => Properties.LifecycleConfiguration.Rules)
      .map((rules) => rules.map(({ ExpirationInDays }: { ExpirationInDays?: number }) => ExpirationInDays));

  it('expire in the payload bucket after a month, and never in the result bucket', () => {
    expect(expiryIn({})).toEqual([[undefined], [30]]);
  });

  it('expire in new buckets as they are told to', () => {
    expect(expiryIn({ payloadExpiry: Duration.days(19), resultExpiry: Duration.days(365) })).toEqual([[365], [19]]);
  });
});
