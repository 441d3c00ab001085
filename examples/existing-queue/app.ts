import { App, CfnOutput, Duration, Size, Stack } from 'aws-cdk-lib';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import { BatchScoring, lambdaCompute } from 'batchscore/infra';

// What the app has already: a queue of orders with its dead letters, a service that sends, and a topic for who is on call.
const app = new App();
const stack = new Stack(app, 'Shop');
const deadOrders = new Queue(stack, 'DeadOrders', {
  encryption: QueueEncryption.SQS_MANAGED,
  enforceSSL: true,
  // Counted from when an order was first sent: longer than the four days of the queue itself.
  retentionPeriod: Duration.days(14),
});
const orders = new Queue(stack, 'Orders', {
  encryption: QueueEncryption.SQS_MANAGED,
  enforceSSL: true,
  visibilityTimeout: Duration.seconds(200),
  deadLetterQueue: { queue: deadOrders, maxReceiveCount: 20 },
});
const shop = new Role(stack, 'ShopRole', { assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com') });
const onCall = new Topic(stack, 'OnCall', { enforceSSL: true });

const scoring = new BatchScoring(stack, 'FraudScores', {
  models: 'models',
  defaultModel: 'digits',
  requestQueue: { queue: orders, visibilityTimeout: Duration.seconds(200) },
  // 6 × 30 s + 5 s = 185 s, which the queue's 200 s allow.
  compute: lambdaCompute({ memorySize: Size.mebibytes(3008), timeout: Duration.seconds(30), maximumConcurrency: 20 }),
  batchSize: 500,
  window: Duration.seconds(5),
  results: ['table'],
  alarmActions: [new SnsAction(onCall)],
});

scoring.grantSubmit(shop);
scoring.grantCollect(shop);
scoring.metricErrors().createAlarm(stack, 'ManyErrors', { threshold: 100, evaluationPeriods: 1 });
new CfnOutput(stack, 'ScoresTable', { value: String(scoring.resultTable?.tableName) });
