import { App, Duration, Size, Stack } from 'aws-cdk-lib';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { BatchScoring, lambdaCompute } from 'batchscore/infra';

const app = new App();
const stack = new Stack(app, 'Documents');
const onCall = Topic.fromTopicArn(stack, 'OnCall', 'arn:aws:sns:eu-central-1:123456789012:on-call');

// The models lie in S3: `batchscore publish models s3://documents-models/classes` prints the URI, whose digest pins them.
// New models, or a new image, get a tenth of the traffic for ten minutes; an alarm leads all of it back.
const scoring = new BatchScoring(stack, 'Classes', {
  models: 's3://documents-models/classes/0f343b0931126a20f133d67c2b018a3b5fe1d0a2c3c9e6c5b1b9d5fdf5a9a4d8',
  compute: lambdaCompute({
    memorySize: Size.mebibytes(3008),
    ephemeralStorageSize: Size.gibibytes(2),
    timeout: Duration.seconds(120),
    trafficRouting: TrafficRouting.timeBasedCanary({ interval: Duration.minutes(10), percentage: 10 }),
  }),
  batchSize: 50,
  window: Duration.seconds(5),
  alarmActions: [new SnsAction(onCall)],
});
scoring.addClientOutputs();
