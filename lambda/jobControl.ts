import { createAnnounce } from './aws/announce.ts';
import { createS3Client } from './aws/awsClients.ts';
import { createExecutions, createSfnClient } from './aws/jobExecutions.ts';
import { createJobStorage } from './aws/jobStorage.ts';
import { createPowertoolsTelemetry, logFatal, logWarnings } from './aws/powertools.ts';
import { HOST_PATIENCE } from './aws/sqsWire.ts';
import { loadJobControlConfig } from './hosts/config.ts';
import { type ControlHandler, createControlHandler } from './jobs/finishJob.ts';
import { CONFIG_KEYS } from './settings.ts';

/** Lambda entry of the function that starts and finishes jobs. */
export const handler: ControlHandler = start(process.env);

function start(environment: NodeJS.ProcessEnv): ControlHandler {
  try {
    const config = loadJobControlConfig(environment);
    const { logger } = createPowertoolsTelemetry(config);
    logWarnings(logger);
    const executions = createExecutions({ sfn: createSfnClient(), stateMachineArn: config.jobsStateMachine });
    const control = createControlHandler({
      storage: createJobStorage({ s3: createS3Client(HOST_PATIENCE), bucket: config.jobsBucket }),
      executions,
      describe: executions.describe,
      announce: config.eventsArn === undefined ? undefined : createAnnounce(config.eventsArn),
      bucket: config.jobsBucket,
      inputPrefix: config.jobsInputPrefix,
      outputPrefix: config.jobsOutputPrefix,
      concurrency: config.jobsConcurrency,
      warn: (message) => logger.warn(message),
    });
    return async (event) => {
      const answer = await control(event);
      logger.info('a call of a job', { answer });
      return answer;
    };
  } catch (error) {
    logFatal('the function cannot start', error, environment[CONFIG_KEYS.serviceName]);
    throw error;
  }
}
