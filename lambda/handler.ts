import './onnx/firstThread.ts';
import { endProcess } from './aws/endProcess.ts';
import { createPowertoolsTelemetry, logFatal, logWarnings } from './aws/powertools.ts';
import { createSqsCaller, HOST_PATIENCE } from './aws/sqsWire.ts';
import { withTraces } from './aws/traces.ts';
import { compose } from './hosts/compose.ts';
import { loadConfig } from './hosts/config.ts';
import { createHandler, type ScoringHandler } from './hosts/createHandler.ts';
import { CONFIG_KEYS } from './settings.ts';

/** The Lambda entry. A wrong configuration or a broken model fails here, at cold start. */
export const handler = await start(process.env).catch((error: unknown): never => {
  logFatal('the function cannot start', error, process.env[CONFIG_KEYS.serviceName]);
  throw error;
});

async function start(environment: NodeJS.ProcessEnv): Promise<ScoringHandler> {
  const config = loadConfig(environment);
  const telemetry = createPowertoolsTelemetry(config);
  const { logger } = telemetry;
  const warn = (message: string) => logger.warn(message);
  logWarnings(logger);
  const composition = await compose(config, {
    clients: {
      sqs: createSqsCaller(HOST_PATIENCE),
      dynamodb: async () => (await import('./aws/awsClients.ts')).createDynamoDbClient(HOST_PATIENCE),
      s3: async () => (await import('./aws/awsClients.ts')).createS3Client(HOST_PATIENCE),
    },
    telemetry: withTraces(telemetry),
    warn,
    inform: (message) => logger.info(message),
    hasQuarantine: true,
  });
  return createHandler({ ...composition, exitProcess: () => endProcess(1) });
}
