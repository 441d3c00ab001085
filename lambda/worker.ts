import { createDynamoDbClient, createS3Client, createSqsClient, HOST_PATIENCE } from './adapters/awsClients.ts';
import { endProcess } from './adapters/endProcess.ts';
import { createPowertoolsTelemetry } from './adapters/telemetry/powertools.ts';
import { compose } from './compose.ts';
import { loadConfig } from './config.ts';
import { openHealthPort } from './worker/health.ts';
import { drainOrGiveUp, listenForStop } from './worker/lifeCycle.ts';
import { workerSettings } from './worker/settings.ts';
import { startWorker, type Worker } from './worker/startWorker.ts';
import { protectTask } from './worker/taskProtection.ts';

const PUBLISH_MS = 10_000;

const stop = listenForStop();
const config = loadConfig(process.env);
const settings = workerSettings(config);
const telemetry = createPowertoolsTelemetry({ ...config, batchSize: settings.batchSize, logsBatches: false });
const { logger } = telemetry;
let worker: Worker | undefined;
let isStuck = false;

const closeHealth =
  config.healthPort > 0 &&
  (await openHealthPort(config.healthPort, {
    isLive: () => !isStuck,
    isReady: () => worker !== undefined && !stop.isAsked(),
  }));

const sqs = createSqsClient(HOST_PATIENCE, { useQueueUrlAsEndpoint: false });
const pollPatience = { ...HOST_PATIENCE, answerMs: HOST_PATIENCE.answerMs + 1000 * settings.waitSeconds };
const composition = await compose(config, {
  clients: {
    sqs,
    dynamodb: () => createDynamoDbClient(HOST_PATIENCE),
    s3: () => createS3Client(HOST_PATIENCE),
  },
  telemetry,
  warn: (message) => logger.warn(message),
  inform: (message) => logger.info(message),
});
if (stop.isAsked()) await endProcess(0);

worker = startWorker({
  settings,
  composition,
  sqs,
  pollingSqs: createSqsClient(pollPatience, { useQueueUrlAsEndpoint: false }),
  onStuck() {
    if (isStuck) return;
    isStuck = true;
    telemetry.hostEnds('a run was left behind');
    stop.ask('stuck run');
  },
});
const unprotect = protectTask({
  agentUri: process.env.ECS_AGENT_URI,
  isBusy: () => (worker?.held() ?? 0) > 0,
  onProblem: (error) => logger.warn(String(error)),
});
setInterval(telemetry.publish, PUBLISH_MS).unref();
logger.info('the worker is ready', { models: composition.models, ...settings });

const cause = await stop.asked;
const { exitCode, message, details } = await drainOrGiveUp(worker, stop, cause, settings);
await unprotect();
telemetry.publish();
logger[exitCode === 0 ? 'info' : 'error'](message, details);
if (closeHealth) closeHealth();
await endProcess(exitCode);
