// CDK app that cdk.json names. Edit it, then run `npx cdk diff` and `npx cdk deploy`.
import { App, Stack, Validations } from 'aws-cdk-lib/core'; // Also exports: Duration, RemovalPolicy, Size
import { AwsSolutionsChecks } from 'cdk-nag';
import { BatchScoring } from './index.ts'; // Also exports: lambdaCompute, lambdaGpuCompute, ecsCompute, ecsGpuCompute

const app = new App();
Validations.of(app).addPlugins(new AwsSolutionsChecks(app));

const stack = new Stack(app, 'Batchscore', { description: 'batchscore: batch scoring of ONNX models' });
const scoring = new BatchScoring(stack, 'Scoring', {
  models: 'models', // Folder, or URI in S3 that `batchscore publish` prints
  defaultModel: 'digits', // Model for requests that name none

  // Common options. examples/ contains complete apps, and docs/construct.md lists all props.
  // batchSize: 500,
  // window: Duration.seconds(5),
  // results: ['queue', 'table'],
  // compute: lambdaCompute({ memorySize: Size.mebibytes(3008), timeout: Duration.seconds(30), maximumConcurrency: 20 }),
  // compute: ecsCompute({ vcpus: 2 }),
  // jobs: {},
  // encryptionKey: new Key(stack, 'Key', { enableKeyRotation: true }),
  // alarmActions: [new SnsAction(Topic.fromTopicArn(stack, 'AlarmTopic', 'arn:aws:sns:REGION:ACCOUNT:NAME'))],
  // removalPolicy: RemovalPolicy.DESTROY,
});

// `--outputs-file stack.json` writes them to the file that the commands take as `--stack`.
scoring.addClientOutputs();
