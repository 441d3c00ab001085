// One stack for each stage, in an account and a region of its own. Tags reach everything that AWS bills.
import { App, RemovalPolicy, Stack, Tags } from 'aws-cdk-lib';
import { BatchScoring } from '../infra/index.ts';

const STAGES = { Staging: '111111111111', Production: '222222222222' };

const app = new App();
for (const [stage, account] of Object.entries(STAGES)) {
  const stack = new Stack(app, `Batchscore${stage}`, { env: { account, region: 'eu-central-1' } });
  Tags.of(stack).add('team', 'risk');
  const scoring = new BatchScoring(stack, 'Scoring', {
    models: 'models',
    defaultModel: 'digits',
    // `cdk destroy` of the stage for trials leaves nothing behind.
    removalPolicy: stage === 'Production' ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY,
  });
  scoring.addClientOutputs();
}
