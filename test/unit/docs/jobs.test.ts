import { describe, expect, it } from '@jest/globals';
import { loadJobControlConfig, loadJobScoreConfig } from '../../../lambda/hosts/config.ts';
import { JOB_CONFIG_KEYS } from '../../../lambda/settings.ts';

import { docPage } from '../../helpers/docExamples.ts';
import { estimatedJob } from '../../helpers/jobEstimate.ts';

const CONTROL = {
  BATCHSCORE_JOBS_BUCKET: 'bucket',
  BATCHSCORE_JOBS_INPUT_PREFIX: 'jobs/in/',
  BATCHSCORE_JOBS_OUTPUT_PREFIX: 'jobs/out/',
  BATCHSCORE_JOBS_STATE_MACHINE: 'arn:aws:states:eu-central-1:123456789012:stateMachine:jobs',
};

describe('the table of the variables of jobs', () => {
  const rows = [...docPage('configuration.md').matchAll(/^\| `(BATCHSCORE_JOBS_\w+)` \|.*\| (\S+) \|$/gm)];
  const stated = Object.fromEntries(rows.map(([, name = '', text = '']) => [name, text]));

  it('has every variable, and none that there is not', () => {
    expect(Object.keys(stated).toSorted()).toEqual(Object.values<string>(JOB_CONFIG_KEYS).toSorted());
  });

  it('states the defaults, and what is required', () => {
    const config: Record<string, unknown> = { ...loadJobScoreConfig({}), ...loadJobControlConfig(CONTROL) };
    for (const [name, key] of Object.entries(JOB_CONFIG_KEYS)) {
      if (key in CONTROL) {
        expect(stated[key]).toBe('required');
        expect(() => loadJobControlConfig({ ...CONTROL, [key]: undefined })).toThrow(`${key}: `);
      } else {
        expect([key, stated[key]]).toEqual([key, String(config[name])]);
      }
    }
  });

  it('refuses variables of queues, which a function of jobs would pass over', () => {
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
        .map((cell) => Number.parseFloat(cell));
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
