import { describe, expect, it } from '@jest/globals';
import { Duration, Size } from 'aws-cdk-lib';
import type { BatchScoringProps } from '../../../infra/index.ts';
import { loadJobControlConfig, loadJobScoreConfig } from '../../../lambda/hosts/config.ts';
import { synthesize } from '../../helpers/stacks.ts';
import { functionIn } from './setup.ts';

/** Everything that a deployment can say of scoring and logs. */
const ALL: Partial<BatchScoringProps> = {
  defaultModel: 'tickets',
  logLevel: 'warn',
  tracing: true,
  environment: { NODE_OPTIONS: '--no-warnings' },
  tuning: {
    maxBatchRows: 64,
    maxBatchElements: 1000,
    maxRequestRows: 100,
    maxRequestsPerMessage: 10,
    maxAnswerCharacters: 5000,
    deadlineMargin: Duration.seconds(2),
    checkPercent: 3,
    maxPayloadSize: Size.mebibytes(1),
    preload: false,
    providers: 'cpu',
    allowProviderFallback: true,
  },
};

/** As a function has it: what is known at deployment only is text too. */
function environmentOf(command: string, props: Partial<BatchScoringProps>): Record<string, string> {
  const { Variables } = functionIn(synthesize(props), command).Environment;
  const known = ([key, value]: [string, unknown]) => [key, typeof value === 'string' ? value : 'arn:aws:known-later'];
  return Object.fromEntries(Object.entries(Variables).map(known));
}

describe('the environment of the functions of jobs', () => {
  it.each([
    ['nothing', {}],
    ['everything', ALL],
  ])('is one that they start with, when a deployment says %s', (_, props) => {
    const settings = { ...props, jobs: { inputPrefix: 'a/', outputPrefix: 'b/', concurrency: 9 } };
    const score = loadJobScoreConfig(environmentOf('jobScore.handler', settings));
    expect(score).toMatchObject({ jobsPartBytes: 100_663_296, jobsPieceBytes: 16_777_216 });
    const control = loadJobControlConfig(environmentOf('jobControl.handler', settings));
    expect(control).toMatchObject({ jobsInputPrefix: 'a/', jobsOutputPrefix: 'b/', jobsConcurrency: 9 });
  });

  it('has what the deployment says', () => {
    const config = loadJobScoreConfig(
      environmentOf('jobScore.handler', { ...ALL, jobs: { partSize: Size.mebibytes(32) } }),
    );
    expect(config).toMatchObject({
      defaultModel: 'tickets',
      logLevel: 'warn',
      maxBatchRows: 64,
      maxBatchElements: 1000,
      maxRequestRows: 100,
      maxRequestsPerMessage: 10,
      maxAnswerCharacters: 5000,
      checkPercent: 3,
      maxPayloadBytes: 1_048_576,
      preload: false,
      providers: ['cpu'],
      allowProviderFallback: true,
      jobsPartBytes: 33_554_432,
    });
  });
});
