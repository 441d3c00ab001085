import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** What a function posts about a failure. */
export interface RuntimeError {
  readonly errorType: string;
  readonly errorMessage: string;
}

/** What a function does first: it asks for an event, or says why it cannot start. */
export type Start = { readonly ready: true } | { readonly initError: RuntimeError };

/** Lambda's side of one execution environment. */
export interface RuntimeApi {
  /** `host:port`, as `AWS_LAMBDA_RUNTIME_API` has it. */
  readonly address: string;
  readonly start: Promise<Start>;
  /** @throws Error with what the function threw */
  invoke(event: unknown): Promise<unknown>;
  close(): void;
}

const FUNCTION_ARN = 'arn:aws:lambda:us-east-1:000000000000:function:batchscore';
const TIMEOUT_MS = 60_000;
const PREFIX = '/2018-06-01/runtime';

/** @see https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html */
export async function startRuntimeApi(): Promise<RuntimeApi> {
  const start = Promise.withResolvers<Start>();
  const asked: ServerResponse[] = [];
  const events: ((next: ServerResponse) => void)[] = [];
  const invocations = new Map<string, PromiseWithResolvers<unknown>>();

  const match = (): void => {
    while (asked.length > 0 && events.length > 0) events.shift()?.(asked.shift() as ServerResponse);
  };

  const server = createServer(async (request: IncomingMessage, response) => {
    const path = request.url?.slice(PREFIX.length) ?? '';
    if (path === '/invocation/next') {
      start.resolve({ ready: true });
      asked.push(response);
      return match();
    }
    const body = JSON.parse(await text(request));
    response.writeHead(202, { 'content-type': 'application/json' }).end('{"status":"OK"}');
    if (path === '/init/error') return start.resolve({ initError: body });
    const [, , id = '', kind] = path.split('/');
    if (kind === 'response') invocations.get(id)?.resolve(body);
    else invocations.get(id)?.reject(new Error(`the function threw ${JSON.stringify(body)}`));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    start: start.promise,
    invoke: (event) => {
      const id = randomUUID();
      const invocation = Promise.withResolvers<unknown>();
      invocations.set(id, invocation);
      events.push((next) => next.writeHead(200, headersOf(id)).end(JSON.stringify(event)));
      match();
      return invocation.promise;
    },
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** The runtime client crashes on an answer without a content type. */
function headersOf(id: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    'lambda-runtime-aws-request-id': id,
    'lambda-runtime-deadline-ms': String(Date.now() + TIMEOUT_MS),
    'lambda-runtime-invoked-function-arn': FUNCTION_ARN,
    'lambda-runtime-trace-id': 'Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=0',
  };
}
