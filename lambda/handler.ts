import { createDynamoDbClient, createS3Client, createSqsClient, HOST_PATIENCE } from './adapters/awsClients.ts';
import { endProcess } from './adapters/endProcess.ts';
import { createPowertoolsTelemetry } from './adapters/telemetry/powertools.ts';
import { compose } from './compose.ts';
import { loadConfig } from './config.ts';
import { createHandler } from './createHandler.ts';

const config = loadConfig(process.env);
const telemetry = createPowertoolsTelemetry(config);

const composition = await compose(config, {
  clients: {
    sqs: createSqsClient(HOST_PATIENCE, { useQueueUrlAsEndpoint: false }),
    dynamodb: () => createDynamoDbClient(HOST_PATIENCE),
    s3: () => createS3Client(HOST_PATIENCE),
  },
  telemetry,
  warn: (message) => telemetry.logger.warn(message),
  inform: (message) => telemetry.logger.info(message),
});

/** The Lambda entry. A wrong configuration or a broken model fails here, at cold start. */
export const handler = createHandler({ ...composition, endHost: () => endProcess(1) });
