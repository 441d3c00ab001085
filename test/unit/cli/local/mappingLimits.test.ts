import { describe, expect, it } from '@jest/globals';
import { type MappingLimits, refuseInvalidLimits } from '../../../../cli/local/localMapping.ts';

function limits(overrides: Partial<MappingLimits> = {}): MappingLimits {
  return {
    queueArn: 'arn:aws:sqs:us-east-1:000000000000:requests',
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 2,
    functionTimeoutSeconds: 30,
    ...overrides,
  };
}

const FIFO = { queueArn: 'arn:aws:sqs:us-east-1:000000000000:requests.fifo' };

describe('refuseInvalidLimits', () => {
  it.each([
    [{}],
    [{ batchSize: 1 }],
    [{ batchSize: 10_000, windowSeconds: 1 }],
    [{ windowSeconds: 300 }],
    [{ maximumConcurrency: 1000, functionTimeoutSeconds: 900 }],
    [{ ...FIFO, batchSize: 10 }],
  ])('takes %j', (overrides) => {
    expect(() => refuseInvalidLimits(limits(overrides))).not.toThrow();
  });

  it.each([
    [{ batchSize: 0 }, 'batchSize: expected a whole number from 1 to 10000, got 0'],
    [{ batchSize: 10_001, windowSeconds: 1 }, 'batchSize: expected a whole number from 1 to 10000, got 10001'],
    [{ batchSize: 2.5 }, 'batchSize: expected a whole number from 1 to 10000, got 2.5'],
    [{ windowSeconds: 301 }, 'windowSeconds: expected a whole number from 0 to 300, got 301'],
    [{ windowSeconds: Number.NaN }, 'windowSeconds: expected a whole number from 0 to 300, got NaN'],
    [{ maximumConcurrency: 0 }, 'maximumConcurrency: expected a whole number from 1 to 1000, got 0'],
    [{ functionTimeoutSeconds: 901 }, 'functionTimeoutSeconds: expected a whole number from 1 to 900, got 901'],
    [{ batchSize: 11 }, 'windowSeconds: expected at least 1 with a batchSize above 10, got 0 with batchSize 11'],
    [{ ...FIFO, batchSize: 11 }, 'batchSize: expected at most 10 on a FIFO queue, got 11'],
    [{ ...FIFO, windowSeconds: 1 }, 'windowSeconds: expected 0 on a FIFO queue'],
  ])('refuses %j', (overrides, message) => {
    expect(() => refuseInvalidLimits(limits(overrides))).toThrow(message);
  });

  it('names every problem in one error', () => {
    expect(() => refuseInvalidLimits(limits({ batchSize: 0, maximumConcurrency: 0 }))).toThrow(
      /batchSize.*maximumConcurrency/,
    );
  });
});
