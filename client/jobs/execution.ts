import type { S3Client } from '@aws-sdk/client-s3';
import { DescribeExecutionCommand, type DescribeExecutionCommandOutput, type SFNClient } from '@aws-sdk/client-sfn';
import { JOB_START, parseObject } from '../../lambda/jobs/jobObjects.ts';
import type { JobStart } from '../../lambda/jobs/jobTypes.ts';

/** Where jobs are, and what they are talked to with. */
export interface JobSettings {
  /** ARN of the state machine. */
  readonly stateMachineArn: string;
  readonly bucket: string;
  readonly inputPrefix: string;
  readonly outputPrefix: string;
  /** Most calls at a time. */
  readonly concurrency: number;
  readonly s3: S3Client;
  readonly sfn: SFNClient;
}

/** Runs that are looked for: a job is resumed a few times. */
const MOST_RUNS = 1_000;

/** One execution of a job. */
export interface Execution {
  readonly executionArn: string;
  readonly status: DescribeExecutionCommandOutput['status'];
  readonly start: JobStart;
  readonly error: string | undefined;
  readonly cause: string | undefined;
}

/** The run of a job that was started last; undefined when there is none. */
export async function latestRun(settings: JobSettings, job: string): Promise<Execution | undefined> {
  let latest: Execution | undefined;
  for (let run = 1; run <= MOST_RUNS; run++) {
    const execution = await describeRun(settings, runName(job, run));
    if (execution === undefined) return latest;
    latest = execution;
  }
  return latest;
}

/** What the execution of a run is called. */
export function runName(job: string, run: number): string {
  return run === 1 ? job : `${job}-${run}`;
}

async function describeRun({ sfn, stateMachineArn }: JobSettings, name: string): Promise<Execution | undefined> {
  const executionArn = `${stateMachineArn.replace(':stateMachine:', ':execution:')}:${name}`;
  try {
    const answer = await sfn.send(new DescribeExecutionCommand({ executionArn }));
    const start = parseObject(JOB_START, answer.input ?? '', executionArn);
    return { executionArn, status: answer.status, start, error: answer.error, cause: answer.cause };
  } catch (error) {
    if (error instanceof Error && error.name === 'ExecutionDoesNotExist') return undefined;
    throw error;
  }
}
