import './scorer/early.ts';
import { createPowertoolsTelemetry, logFatal, logWarnings } from './aws/powertools.ts';
import { createSqsCaller, HOST_PATIENCE } from './aws/sqsWire.ts';
import { compose } from './hosts/compose.ts';
import { loadConfig } from './hosts/config.ts';
import { joinWorkers, startWorker, type Worker, workerSettings } from './hosts/consumer.ts';
import {
  createGpuWatch,
  drainOrGiveUp,
  listenForStop,
  openHealthPort,
  protectionAt,
  protectTask,
} from './hosts/task.ts';
import { readGpus } from './onnx/provider.ts';
import { CONFIG_KEYS } from './settings.ts';

const PUBLISH_MS = 10_000;
/** Maximum time that the end waits for the last samples to be stored. */
const CAPTURE_MS = 1_000;

let worker: Worker | undefined;

const stop = listenForStop();
process.on('uncaughtException', (error) => {
  const what = worker === undefined ? 'the worker cannot start' : 'the worker cannot continue; its messages come back';
  logFatal(what, error, process.env[CONFIG_KEYS.serviceName]);
  process.exit(1);
});
const config = loadConfig(process.env);
const settings = workerSettings(config);
const telemetry = createPowertoolsTelemetry({ ...config, batchSize: settings.batchSize, logsBatches: false });
const { logger } = telemetry;
logWarnings(logger);
// No records are held while models load.
void stop.asked.then(() => worker ?? process.exit(0));

const closeHealth =
  config.healthPort > 0 &&
  (await openHealthPort(config.healthPort, {
    isLive: () => true,
    isReady: () => worker !== undefined && !stop.isAsked(),
  }));

const watchGpus = createGpuWatch({
  read: readGpus,
  onReadings: telemetry.gpus,
  onProblem: (message) => logger.warn(message),
});
for (const provider of config.providers) watchGpus(provider);

const sqs = createSqsCaller(HOST_PATIENCE);
const { urgentQueueUrl } = config;
const dependencies = {
  clients: {
    sqs,
    s3: async () => (await import('./aws/awsClients.ts')).createS3Client(HOST_PATIENCE),
  },
  telemetry: {
    ...telemetry,
    assigned(assignment: Parameters<NonNullable<typeof telemetry.assigned>>[0]) {
      telemetry.assigned?.(assignment);
      watchGpus(assignment.provider);
    },
  },
  warn: (message: string) => logger.warn(message),
};
// Urgent requests have models of their own, so they wait for nothing of the others.
const isBackground = urgentQueueUrl !== undefined;
const inform = (message: string) => logger.info(message);
const composition = await compose(config, { ...dependencies, inform, isBackground });
const urgent = isBackground ? await compose(config, dependencies) : undefined;
const common = { sqs, onProblem: (error: Error) => logger.error('a call of SQS failed', error) };
const workers = [startWorker({ ...common, settings, composition })];
if (urgentQueueUrl !== undefined && urgent !== undefined) {
  const own = { ...settings, queueUrls: [urgentQueueUrl], windowMs: 0 };
  workers.push(startWorker({ ...common, settings: own, composition: urgent }));
}
worker = joinWorkers(workers);
const { ECS_AGENT_URI } = process.env;
const unprotect =
  ECS_AGENT_URI !== undefined &&
  protectTask({
    put: protectionAt(ECS_AGENT_URI),
    isBusy: () => (worker?.leased() ?? 0) > 0,
    onProblem: (error) => logger.warn(String(error)),
  });
setInterval(telemetry.publish, PUBLISH_MS).unref();
logger.info('the worker is ready', { models: composition.scorer.models, ...settings });

const cause = await stop.asked;
logger.info('the worker was told to end', { cause, held: worker.leased() });
const { exitCode, message, details } = await drainOrGiveUp(worker, stop, cause, settings);
await Promise.all([composition, urgent].map((one) => one?.scoring.capture?.end(exitCode === 0 ? CAPTURE_MS : 0)));
// A forced end does not wait for the agent: protection ends with the task.
if (unprotect && exitCode === 0) await unprotect();
telemetry.publish();
logger[exitCode === 0 ? 'info' : 'error'](message, details);
if (closeHealth) closeHealth();
process.exit(exitCode);
