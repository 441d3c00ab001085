import { CfnOutput, Duration, Stack, type StackProps } from 'aws-cdk-lib';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

const FUNCTION_TIMEOUT_SECONDS = 30;
const WINDOW_SECONDS = 1;

/** The request queue with its dead-letter queue, and the result queue. */
export class QueuesStack extends Stack {
  constructor(scope: Construct, id: string, props?: StackProps) {
    super(scope, id, props);
    const deadLetters = new Queue(this, 'DeadLetters', { enforceSSL: true, retentionPeriod: Duration.days(14) });
    const requests = new Queue(this, 'Requests', {
      enforceSSL: true,
      // AWS asks for six function timeouts and the window: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
      visibilityTimeout: Duration.seconds(6 * FUNCTION_TIMEOUT_SECONDS + WINDOW_SECONDS),
      deadLetterQueue: { queue: deadLetters, maxReceiveCount: 5 },
    });
    const results = new Queue(this, 'Results', { enforceSSL: true });
    new CfnOutput(this, 'RequestQueueUrl', { value: requests.queueUrl });
    new CfnOutput(this, 'ResultQueueUrl', { value: results.queueUrl });
    new CfnOutput(this, 'DeadLetterQueueUrl', { value: deadLetters.queueUrl });
  }
}
