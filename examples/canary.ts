// New versions in steps: a tenth of the traffic for 15 minutes, then all of it, unless an alarm undoes the deployment.
import { App, Duration, Size, Stack } from 'aws-cdk-lib';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { BatchScoring, lambdaCompute } from '../infra/index.ts';

const app = new App();
const stack = new Stack(app, 'Canary');
const onCall = new Topic(stack, 'OnCall', { enforceSSL: true });

const scoring = new BatchScoring(stack, 'Scoring', {
  models: 'models',
  defaultModel: 'digits',
  compute: lambdaCompute({
    memorySize: Size.mebibytes(3008),
    timeout: Duration.seconds(30),
    trafficRouting: TrafficRouting.timeBasedCanary({ interval: Duration.minutes(15), percentage: 10 }),
  }),
  alarmActions: [new SnsAction(onCall)],
});
scoring.addClientOutputs();
