import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { SFNClient } from '@aws-sdk/client-sfn';
import { deferred } from '../../lambda/core/concurrency.ts';

import { finishJob, noteFailure } from '../../lambda/jobs/finishJob.ts';
import { planKey, readParts } from '../../lambda/jobs/jobObjects.ts';
import { isJobCode, type JobStart, type JobStorage } from '../../lambda/jobs/jobTypes.ts';
import { planJob } from '../../lambda/jobs/planJob.ts';
import type { ScoreEvent } from '../../lambda/jobs/scorePart.ts';
import { callOrSkip } from './jobs.ts';
import { lineModel, repositoryOf } from './models.ts';

export interface JobsServer {
  readonly endpoint: string;
  readonly stateMachineArn: string;
  readonly sfn: SFNClient;
  /** Names of the executions that were started. */
  readonly started: string[];
  /** Executions begin once this is called; until then they are running. */
  go(): void;
  stop(): void;
}

interface Execution {
  readonly input: string;
  status: string;
  error?: string;
  cause?: string;
}

const MODELS = repositoryOf(lineModel());
const ARN = 'arn:aws:states:us-east-1:000000000000:stateMachine:jobs';

/**
 * The three actions of Step Functions that clients of jobs use, over what an execution does: it plans, scores and
 * finishes with the real code, one part after the other.
 *
 * @param waits whether executions wait for `go`. @default false
 */
export async function startJobsServer(storage: JobStorage, { waits = false } = {}): Promise<JobsServer> {
  const executions = new Map<string, Execution>();
  const started: string[] = [];
  const begun = deferred();
  if (!waits) begun.resolve();
  const actions: Record<string, (body: Record<string, string>) => object> = {
    StartExecution({ name = '', input = '' }) {
      const known = executions.get(name);
      if (known !== undefined && (known.status !== 'RUNNING' || known.input !== input)) {
        return { __type: 'ExecutionAlreadyExists', message: name };
      }
      if (known === undefined) {
        const execution: Execution = { input, status: 'RUNNING' };
        executions.set(name, execution);
        started.push(name);
        void begun.promise.then(() => play(storage, execution));
      }
      return { executionArn: name, startDate: 0 };
    },
    DescribeExecution({ executionArn = '' }) {
      const execution = executions.get(executionArn.split(':').at(-1) ?? '');
      return execution ?? { __type: 'ExecutionDoesNotExist', message: executionArn };
    },
    StopExecution({ executionArn = '', error, cause }) {
      const execution = executions.get(executionArn.split(':').at(-1) ?? '');
      if (execution?.status === 'RUNNING') Object.assign(execution, { status: 'ABORTED', error, cause });
      return { stopDate: 0 };
    },
  };
  const server = createServer(async (request, response) => {
    const body = JSON.parse((await buffer(request)).toString());
    const action = String(request.headers['x-amz-target']).split('.').at(-1) ?? '';
    const answer = actions[action]?.(body) ?? {};
    response.writeHead('__type' in answer ? 400 : 200, { 'content-type': 'application/x-amz-json-1.0' });
    response.end(JSON.stringify(answer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const sfn = new SFNClient({ endpoint, region: 'us-east-1', credentials });
  const stop = (): void => {
    sfn.destroy();
    server.closeAllConnections();
    server.close();
  };
  return { endpoint, stateMachineArn: ARN, sfn, started, go: begun.resolve, stop };
}

async function play(storage: JobStorage, execution: Execution): Promise<void> {
  const start = JSON.parse(execution.input) as JobStart;
  const { folder, run, bucket } = start;
  try {
    await planJob(
      { action: 'plan', start },
      { storage, models: MODELS, partBytes: 400, pieceBytes: 100, now: Date.now },
    );
    for (const part of await readParts(storage, planKey(folder, run))) {
      let event: ScoreEvent = { action: 'score', bucket, folder, part };
      const options = { storage, models: MODELS, key: start.key, content: new Uint8Array() };
      do {
        if (execution.status !== 'RUNNING') return;
        event = await callOrSkip(event, options);
      } while (event.next !== undefined);
    }
    await finishJob({ action: 'finish', start }, storage, Date.now);
    execution.status = 'SUCCEEDED';
  } catch (error) {
    await noteFailure(storage, folder, error);
    const { name, message } = error as Error;
    Object.assign(execution, { status: 'FAILED', error: isJobCode(name) ? 'States.TaskFailed' : name, cause: message });
  }
}
