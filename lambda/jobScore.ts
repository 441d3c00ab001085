import './scorer/early.ts';
import { createS3Client } from './aws/awsClients.ts';
import { fetchModels } from './aws/fetchModels.ts';
import { createJobStorage } from './aws/jobStorage.ts';
import { createPowertoolsTelemetry, logFatal, logWarnings } from './aws/powertools.ts';
import { HOST_PATIENCE } from './aws/sqsWire.ts';
import { loadJobScoreConfig } from './hosts/config.ts';
import { createScoreHandler, type ScoreHandler } from './jobs/scorePart.ts';
import { openScorer } from './scorer/scorer.ts';
import { CONFIG_KEYS } from './settings.ts';

/** Lambda entry of the function that scores jobs. A wrong configuration or a broken model fails here, at cold start. */
export const handler = await start(process.env).catch((error: unknown): never => {
  logFatal('the function cannot start', error, process.env[CONFIG_KEYS.serviceName]);
  throw error;
});

async function start(environment: NodeJS.ProcessEnv): Promise<ScoreHandler> {
  // `scorePart` watches the call's time itself.
  const config = { ...loadJobScoreConfig(environment), deadlineMarginMs: 1 };
  const telemetry = createPowertoolsTelemetry({ ...config, logsBatches: false });
  const { logger, observer } = telemetry;
  logWarnings(logger);
  const s3 = createS3Client(HOST_PATIENCE);
  const warn = (message: string) => logger.warn(message);
  const inform = (message: string) => logger.info(message);
  const { modelsUri: uri } = config;
  const directory = uri === undefined ? config.modelsDirectory : await fetchModels({ s3, uri, inform });
  const scorer = await openScorer({
    repository: { directory, defaultModel: config.defaultModel, preload: config.preload },
    load: config,
    limits: config,
    checkPercent: config.checkPercent,
    warn,
    inform,
    assigned: telemetry.assigned,
    onLost: telemetry.scorerLost,
  });
  const score = createScoreHandler({
    storage: (bucket) => createJobStorage({ s3, bucket }),
    scorer,
    partBytes: config.jobsPartBytes,
    pieceBytes: config.jobsPieceBytes,
    maxLineBytes: config.maxPayloadBytes,
    observer,
  });
  return async (event, context) => {
    try {
      const answer = await score(event, context);
      logger.info('a call of a job', { action: event.action, answer });
      return answer;
    } catch (error) {
      logger.error('a call of a job failed', error instanceof Error ? error : String(error));
      throw error;
    } finally {
      telemetry.publish();
    }
  };
}
