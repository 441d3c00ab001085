import { SQSClient } from '@aws-sdk/client-sqs';
import { createPowertoolsTelemetry } from './adapters/telemetry/powertools.ts';
import { compose } from './compose.ts';
import { loadConfig } from './config.ts';
import { createHandler } from './createHandler.ts';

const telemetry = createPowertoolsTelemetry();

/** The Lambda entry. A wrong configuration or a broken model fails here, at cold start. */
export const handler = createHandler(
  await compose(loadConfig(process.env), {
    sqs: new SQSClient({ useQueueUrlAsEndpoint: false }),
    telemetry,
    warn: (message) => telemetry.logger.warn(message),
  }),
);
