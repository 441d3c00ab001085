import { describe, expect, it } from '@jest/globals';
import { loadJobControlConfig, loadJobScoreConfig } from '../../../lambda/hosts/config.ts';
import { docPage } from '../../helpers/command.ts';
import { estimatedJob } from '../../helpers/jobs.ts';

const CONTROL = {
  BATCHSCORE_JOBS_BUCKET: 'bucket',
  BATCHSCORE_JOBS_INPUT_PREFIX: 'jobs/in/',
  BATCHSCORE_JOBS_OUTPUT_PREFIX: 'jobs/out/',
  BATCHSCORE_JOBS_STATE_MACHINE: 'arn:aws:states:eu-central-1:123456789012:stateMachine:jobs',
};

describe('the functions of jobs', () => {
  it('refuse variables of queues, which they would pass over', () => {
    const queue = { BATCHSCORE_REQUEST_QUEUE_URL: 'https://sqs.eu-central-1.amazonaws.com/123456789012/requests' };
    expect(() => loadJobScoreConfig(queue)).toThrow(
      /^configuration: BATCHSCORE_REQUEST_QUEUE_URL: expected a variable of /,
    );
    expect(() => loadJobControlConfig({ ...CONTROL, BATCHSCORE_MODELS_DIR: 'models' })).toThrow(
      'BATCHSCORE_MODELS_DIR: ',
    );
  });
});

describe('what a job costs', () => {
  it('is what the estimate says', () => {
    const estimates = [1e6, 1e8, 1e10].map(estimatedJob);
    const stated = (name: string): number[] => {
      const row =
        docPage('jobs.md')
          .split('\n')
          .find((line) => line.startsWith(`| ${name} |`)) ?? '';
      return row
        .split(' | ')
        .slice(-3)
        .map((cell) => Number.parseFloat(cell.replace('$', '')));
    };
    for (const part of ['compute', 'objects', 'transitions', 'all'] as const) {
      const name = part === 'objects' ? 'S3' : part;
      for (const [index, { dollars }] of estimates.entries()) {
        const share = (stated(name)[index] ?? 0) / dollars[part];
        expect([name, index, Math.abs(share - 1) < 0.02]).toEqual([name, index, true]);
      }
    }
    expect(stated('minutes')).toEqual(estimates.map(({ minutes }) => Number(minutes.toFixed(1))));
  });
});
