import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { messageOf } from '../../../lambda/core/failure.ts';
import { refuseForeignCallers } from '../foreignCallers.ts';
import type { Execution, LocalExecutions } from './executions.ts';

export interface SfnServer {
  /** `http://127.0.0.1:PORT`: the endpoint to give a client of Step Functions. */
  readonly endpoint: string;
  close(): Promise<void>;
}

const START = z.object({ stateMachineArn: z.string(), name: z.string().regex(/^[\w-]{1,80}$/), input: z.string() });
const EXECUTION = z.object({ executionArn: z.string() });
const STOP = EXECUTION.extend({ error: z.string().optional(), cause: z.string().optional() });

/** What a call answers, or how Step Functions refuses it. */
type Answer = { readonly answer: object } | { readonly refusal: string; readonly message: string };

/**
 * Serves the three calls of Step Functions that jobs take, on a free port of 127.0.0.1.
 *
 * @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_Operations.html
 */
export async function startSfnServer(executions: LocalExecutions): Promise<SfnServer> {
  const server = createServer((request, response) => {
    reply(request, response, executions).catch((error: unknown) => {
      respond(response, 500, { __type: 'InternalServerError', message: messageOf(error) });
    });
  });
  refuseForeignCallers(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function reply(request: IncomingMessage, response: ServerResponse, executions: LocalExecutions): Promise<void> {
  const target = String(request.headers['x-amz-target'] ?? '').replace('AWSStepFunctions.', '');
  const answer = answerTo(target, await text(request), executions);
  if ('answer' in answer) respond(response, 200, answer.answer);
  else respond(response, 400, { __type: answer.refusal, message: answer.message });
}

function respond(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(body));
}

function answerTo(target: string, body: string, executions: LocalExecutions): Answer {
  try {
    const input: unknown = JSON.parse(body);
    switch (target) {
      case 'StartExecution':
        return start(START.parse(input), executions);
      case 'DescribeExecution':
        return of(executions.find(EXECUTION.parse(input).executionArn), (found) => describe(found, executions));
      case 'StopExecution':
        return stop(STOP.parse(input), executions);
      default:
        return { refusal: 'UnknownOperationException', message: `${target}: the local stack knows no such call` };
    }
  } catch (error) {
    return { refusal: 'ValidationException', message: messageOf(error) };
  }
}

function start({ stateMachineArn, name, input }: z.infer<typeof START>, executions: LocalExecutions): Answer {
  if (stateMachineArn !== executions.stateMachineArn) {
    return { refusal: 'StateMachineDoesNotExist', message: `${stateMachineArn}: there is none of that name` };
  }
  const started = executions.start(name, input);
  if (started === undefined) {
    return { refusal: 'ExecutionAlreadyExists', message: `${name}: there was an execution of that name` };
  }
  const { arn, startedAt } = started.execution;
  return { answer: { executionArn: arn, startDate: seconds(startedAt) } };
}

function stop({ executionArn, ...why }: z.infer<typeof STOP>, executions: LocalExecutions): Answer {
  return of(executions.stop(executionArn, why), () => ({ stopDate: seconds(new Date()) }));
}

function of(execution: Execution | undefined, answer: (execution: Execution) => object): Answer {
  if (execution !== undefined) return { answer: answer(execution) };
  return { refusal: 'ExecutionDoesNotExist', message: 'there is no execution of that ARN' };
}

function describe({ arn, name, input, startedAt, ended }: Execution, { stateMachineArn }: LocalExecutions): object {
  const common = { executionArn: arn, stateMachineArn, name, input, startDate: seconds(startedAt) };
  if (ended === undefined) return { ...common, status: 'RUNNING' };
  const { at, how, why } = ended;
  return {
    ...common,
    status: how.status,
    stopDate: seconds(at),
    ...(how.status === 'SUCCEEDED' && { output: JSON.stringify(how.output) }),
    ...(how.status === 'ABORTED' && why),
    ...(how.status === 'FAILED' && { error: how.error, cause: how.cause }),
  };
}

/** As the protocol has times. */
function seconds(date: Date): number {
  return date.getTime() / 1000;
}
