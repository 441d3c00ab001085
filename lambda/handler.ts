import { createDynamoDbClient, createS3Client, createSqsClient, HOST_PATIENCE } from './aws/awsClients.ts';
import { endProcess } from './aws/endProcess.ts';
import { observed } from './aws/observedCalls.ts';
import { createPowertoolsTelemetry, logFatal, logWarnings } from './aws/powertools.ts';
import { connectToDaemon, withTracing } from './aws/xray.ts';
import { CONFIG_KEYS } from './configKeys.ts';
import { compose } from './hosts/compose.ts';
import { loadConfig } from './hosts/config.ts';
import { createHandler, type ScoringHandler } from './hosts/createHandler.ts';

/** The Lambda entry. A wrong configuration or a broken model fails here, at cold start. */
export const handler = await start(process.env).catch((error: unknown): never => {
  logFatal('the function cannot start', error, process.env[CONFIG_KEYS.serviceName]);
  throw error;
});

async function start(environment: NodeJS.ProcessEnv): Promise<ScoringHandler> {
  const config = loadConfig(environment);
  const { serviceName, tracing } = config;
  const telemetry = createPowertoolsTelemetry(config);
  const { logger, awsCall } = telemetry;
  const warn = (message: string) => logger.warn(message);
  logWarnings(logger);
  const send = tracing ? connectToDaemon(environment.AWS_XRAY_DAEMON_ADDRESS, warn) : undefined;
  const composition = await compose(config, {
    clients: {
      sqs: observed(createSqsClient(HOST_PATIENCE, { useQueueUrlAsEndpoint: false }), awsCall),
      dynamodb: () => observed(createDynamoDbClient(HOST_PATIENCE), awsCall),
      s3: () => observed(createS3Client(HOST_PATIENCE), awsCall),
    },
    telemetry: send === undefined ? telemetry : withTracing(telemetry, { serviceName, send }),
    warn,
    inform: (message) => logger.info(message),
  });
  return createHandler({ ...composition, endHost: () => endProcess(1) });
}
