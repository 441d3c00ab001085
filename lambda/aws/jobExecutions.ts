import { DescribeExecutionCommand, SFNClient, StartExecutionCommand } from '@aws-sdk/client-sfn';
import type { JobStart } from '../jobs/jobTypes.ts';
import { isNamed } from './awsError.ts';

interface ExecutionsOptions {
  readonly sfn: SFNClient;
  readonly stateMachineArn: string;
}

/** Enough from anywhere: requests and answers are small. */
const ANSWER_MS = 10_000;

export function createSfnClient(config: ConstructorParameters<typeof SFNClient>[0] = {}): SFNClient {
  const requestHandler = { connectionTimeout: ANSWER_MS, requestTimeout: ANSWER_MS, throwOnRequestTimeout: true };
  return new SFNClient({ maxAttempts: 6, ...config, requestHandler });
}

/**
 * Creates the executions of a state machine. Starting a running standard execution again with the same input has no
 * effect. An ended execution keeps its name for 90 days.
 *
 * @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
 */
export function createExecutions({ sfn, stateMachineArn }: ExecutionsOptions) {
  return {
    /**
     * Starts an execution.
     * @returns false if an execution of that name has ended or has another input, true if it is new or still running
     */
    async start(name: string, input: JobStart): Promise<boolean> {
      try {
        await sfn.send(new StartExecutionCommand({ stateMachineArn, name, input: JSON.stringify(input) }));
        return true;
      } catch (error) {
        if (isNamed(error, 'ExecutionAlreadyExists')) return false;
        throw error;
      }
    },
    describe: (executionArn: string) => sfn.send(new DescribeExecutionCommand({ executionArn })),
  };
}
