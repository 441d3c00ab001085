// Whole files besides messages: a file that is put under `jobs/in/` of the bucket is scored into `jobs/out/`.
import { App, Size, Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { BatchScoring } from '../infra/index.ts';

const app = new App();
const stack = new Stack(app, 'Jobs');
const analyst = new Role(stack, 'Analyst', { assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com') });

const scoring = new BatchScoring(stack, 'Scoring', {
  models: 'models',
  defaultModel: 'digits',
  jobs: {
    concurrency: 100, // Calls of one job at a time; set aside for jobs, out of the account's concurrency.
    memorySize: Size.mebibytes(3008),
  },
});
scoring.grantSubmitJobs(analyst);
scoring.addClientOutputs();
