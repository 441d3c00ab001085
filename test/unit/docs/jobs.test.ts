import { describe, expect, it } from '@jest/globals';
import { loadJobControlConfig, loadJobScoreConfig } from '../../../lambda/hosts/config.ts';

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
