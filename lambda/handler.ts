import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { SQSClient } from '@aws-sdk/client-sqs';
import { createPowertoolsTelemetry } from './adapters/telemetry/powertools.ts';
import { compose } from './compose.ts';
import { loadConfig } from './config.ts';
import { createHandler } from './createHandler.ts';

const config = loadConfig(process.env);
const telemetry = createPowertoolsTelemetry(config);

/** The Lambda entry. A wrong configuration or a broken model fails here, at cold start. */
export const handler = createHandler(
  await compose(config, {
    clients: {
      sqs: new SQSClient({ useQueueUrlAsEndpoint: false }),
      dynamodb: () => new DynamoDBClient(),
      s3: () => new S3Client(),
    },
    telemetry,
    warn: (message) => telemetry.logger.warn(message),
  }),
);
