import { describe, expect, it } from '@jest/globals';
import { Duration, RemovalPolicy, Size, Token } from 'aws-cdk-lib';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import type { BatchScoringProps } from '../../infra/index.ts';
import { lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { createScoring, createStack, environmentIn, only, refusalOf, templateOf } from '../helpers/stacks.ts';

const WHOLE = 'expected a whole number from';
const DURATIONS: [name: string, props: (duration: Duration) => Partial<BatchScoringProps>][] = [
  ['windowSeconds', (window) => ({ window, latencyTarget: Duration.minutes(9) })],
  ['latencyTargetSeconds', (latencyTarget) => ({ latencyTarget })],
  ['resultTtlSeconds', (resultTtl) => ({ results: ['table'], resultTtl })],
  ['payloadExpiryDays', (payloadExpiry) => ({ payloadExpiry })],
  ['timeoutSeconds', (timeout) => ({ compute: lambdaCompute({ timeout }) })],
  ['timeoutSeconds', (timeout) => ({ compute: lambdaGpuCompute({ timeout }) })],
  ['deadlineMarginMs', (deadlineMargin) => ({ tuning: { deadlineMargin } })],
];
const SIZES: [name: string, props: (size: Size) => Partial<BatchScoringProps>][] = [
  ['largestMessageBytes', (largestMessage) => ({ largestMessage })],
  ['resultMessageBytes', (resultMessageSize) => ({ resultsPerMessage: 'fill', resultMessageSize })],
  ['memoryMb', (memorySize) => ({ compute: lambdaCompute({ memorySize }) })],
  ['memoryMb', (memorySize) => ({ compute: lambdaGpuCompute({ memorySize }) })],
  ['ephemeralStorageMb', (ephemeralStorageSize) => ({ compute: lambdaCompute({ ephemeralStorageSize }) })],
  ['maxPayloadBytes', (maxPayloadSize) => ({ tuning: { maxPayloadSize } })],
];

describe('an amount that is not whole', () => {
  it.each(DURATIONS)('is refused as %s', (name, props) => {
    const perUnit = name.endsWith('Ms') ? 1 : name.endsWith('Days') ? 86_400_000 : 1000;
    const sentence = refusalOf(props(Duration.millis(1500.5)));
    expect(sentence).toMatch(new RegExp(`^${name}: ${WHOLE} .*, got ${1500.5 / perUnit}; choose one in that range`));
  });

  it.each(SIZES)('is refused as %s', (name, props) => {
    const perUnit = name.endsWith('Mb') ? 1_048_576 : 1;
    const sentence = refusalOf(props(Size.bytes(4096.5)));
    expect(sentence).toMatch(new RegExp(`^${name}: ${WHOLE} .*, got ${4096.5 / perUnit}; choose one in that range`));
  });

  it.each([
    ['windowSeconds', 'from 0 to 300', { window: Duration.millis(1500) }],
    ['timeoutSeconds', 'from 1 to 900', { compute: lambdaCompute({ timeout: Duration.millis(1500) }) }],
  ] as const)('is refused once, whatever is derived from it: %s', (name, range, props) => {
    expect(refusalOf(props)).toBe(`${name}: expected a whole number ${range}, got 1.5; choose one in that range`);
  });

  it('is refused as the memory of a GPU', () => {
    const compute = lambdaGpuCompute({ gpuMemory: Size.mebibytes(16_000) });
    expect(refusalOf({ compute })).toBe(
      'gpuMemoryGiB: expected one of 3, 6, 12, 16, 24, 48, got 15.625; take one of them',
    );
  });

  it('is refused as the visibility timeout of an existing queue', () => {
    const requestQueue = { queue: new Queue(createStack(), 'Orders'), visibilityTimeout: Duration.millis(400_500) };
    expect(refusalOf({ requestQueue })).toBe(
      "visibilityTimeoutSeconds: expected a whole number, got 400.5; give the queue's own",
    );
  });
});

describe('an amount that only the deployment knows', () => {
  const sentenceOf = (name: string): string =>
    `${name}: expected an amount that is known at synth, because it is checked there, got a token; give a number`;
  const token = Token.asNumber({ Ref: 'Amount' });
  const refusalOfLazy = (props: () => Partial<BatchScoringProps>): string => {
    try {
      return refusalOf(props());
    } catch (error) {
      return String(error instanceof Error ? error.message : error);
    }
  };

  it.each(DURATIONS)('is refused as %s', (name, props) => {
    expect(refusalOfLazy(() => props(Duration.seconds(token)))).toBe(sentenceOf(name));
  });

  it.each([...SIZES, ['gpuMemoryGiB', (gpuMemory: Size) => ({ compute: lambdaGpuCompute({ gpuMemory }) })] as const])(
    'is refused as %s',
    (name, props) => {
      expect(refusalOfLazy(() => props(Size.bytes(token)))).toBe(sentenceOf(name));
    },
  );
});

describe('any unit', () => {
  it('means the same', () => {
    const template = templateOf(
      createScoring({
        compute: lambdaCompute({ memorySize: Size.gibibytes(2), timeout: Duration.minutes(2) }),
        window: Duration.minutes(1),
        resultsPerMessage: 'fill',
        resultMessageSize: Size.mebibytes(1),
        results: ['queue', 'table'],
        resultTtl: Duration.hours(36),
        payloadExpiry: Duration.hours(480),
        tuning: { deadlineMargin: Duration.seconds(2), maxPayloadSize: Size.kibibytes(3) },
      }),
    );
    expect(only(template, 'AWS::Lambda::Function')).toMatchObject({ MemorySize: 2048, Timeout: 120 });
    expect(environmentIn(template)).toMatchObject({
      [CONFIG_KEYS.windowSeconds]: '60',
      [CONFIG_KEYS.resultMessageBytes]: '1048576',
      [CONFIG_KEYS.resultTtlSeconds]: '129600',
      [CONFIG_KEYS.deadlineMarginMs]: '2000',
      [CONFIG_KEYS.maxPayloadBytes]: '3072',
    });
    template.hasResourceProperties('AWS::S3::Bucket', {
      LifecycleConfiguration: { Rules: [{ ExpirationInDays: 20 }] },
    });
  });
});

describe('a value of the CDK that does not fit', () => {
  it.each([
    [
      { removalPolicy: RemovalPolicy.SNAPSHOT },
      'removalPolicy: expected one of retain, destroy, retain-on-update-or-delete, got snapshot; take one of them',
    ],
    [
      { compute: lambdaCompute({ architecture: Architecture.custom('riscv64') }) },
      'architecture: expected one of arm64, x86_64, got riscv64; take one of them',
    ],
    [
      { compute: lambdaCompute({ ephemeralStorageSize: Size.mebibytes(511) }) },
      'ephemeralStorageMb: expected a whole number from 512 to 10240, got 511; choose one in that range',
    ],
  ])('is refused in one sentence: %#', (props, sentence) => {
    expect(refusalOf(props)).toBe(sentence);
  });
});
