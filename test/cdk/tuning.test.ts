import { describe, expect, it } from '@jest/globals';
import { Duration, Size } from 'aws-cdk-lib';
import { tuningProblems } from '../../infra/constructs/checks/tuning.ts';
import { lambdaCompute } from '../../infra/index.ts';
import { CONFIG_KEYS } from '../../lambda/configKeys.ts';
import { RANGES, RANGES_BY_MEMORY } from '../../lambda/core/limits.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { refusalOf } from '../helpers/stacks.ts';

describe('numbers that the host itself would refuse', () => {
  it.each([
    [{ maxBatchRows: 0 }, 'maxBatchRows: expected a whole number from 1 to 65536, got 0'],
    [{ maxBatchRows: 65_537 }, 'maxBatchRows: expected a whole number from 1 to 65536, got 65537'],
    [{ maxBatchElements: 1.5 }, 'maxBatchElements: expected a whole number from 1 to 1073741824, got 1.5'],
    [{ maxRequestRows: 1e9 }, 'maxRequestRows: expected a whole number from 1 to 1000000, got 1000000000'],
    [{ deadlineMargin: Duration.millis(0) }, 'deadlineMarginMs: expected a whole number from 1 to 60000, got 0'],
    [{ maxPayloadSize: Size.bytes(0) }, 'maxPayloadBytes: expected a whole number from 1 to 1073741824, got 0'],
  ])('are refused at synth: %j', (tuning, sentence) => {
    expect(refusalOf({ tuning })).toBe(`${sentence}; choose one in that range`);
  });

  it.each([
    'maxBatchRows',
    'maxBatchElements',
    'maxRequestRows',
    'maxRequestsPerMessage',
    'deadlineMarginMs',
    'maxAnswerCharacters',
    'maxPayloadBytes',
    'checkPercent',
  ] as const)('are the same at synth and at start: %s', (name) => {
    const { least, most } = { ...RANGES, ...RANGES_BY_MEMORY }[name];
    for (const value of [least - 1, least, most, most + 1]) {
      const refusedAtSynth = tuningProblems({ [name]: value }, 900).some((problem) => problem !== undefined);
      expect([name, value, refusedAtSynth]).toEqual([name, value, hostRefuses(CONFIG_KEYS[name], value)]);
    }
  });

  it('include a timeout within the margin that the host keeps unless it is told otherwise', () => {
    expect(refusalOf({ compute: lambdaCompute({ timeout: Duration.seconds(1) }) })).toBe(
      'timeoutSeconds: expected more than the deadline margin of 1000 ms, got 1 s = 1000 ms; raise it or lower deadlineMarginMs',
    );
    expect(refusalOf({ compute: lambdaCompute({ timeout: Duration.seconds(2) }) })).toBe('not refused');
  });
});

function hostRefuses(key: string, value: number): boolean {
  const queue = 'https://sqs.eu-central-1.amazonaws.com/123456789012/queue';
  try {
    loadConfig({
      [CONFIG_KEYS.requestQueueUrls]: queue,
      [CONFIG_KEYS.resultQueueUrl]: `${queue}-of-results`,
      [key]: String(value),
    });
    return false;
  } catch {
    return true;
  }
}
