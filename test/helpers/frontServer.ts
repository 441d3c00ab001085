import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** One request on its way to the server. */
export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** Passes the request on, or one of another body, and gives the server's answer, without giving it to the client. */
  reach(body?: string): Promise<Answer>;
  /** What the client gets. */
  readonly response: ServerResponse;
}

/** Answers one request in the server's place. */
export type Step = (exchange: Exchange) => Promise<void> | void;

export interface FrontServer {
  readonly endpoint: string;
  /** Every request so far, in order of arrival. */
  readonly requests: readonly Exchange[];
  stop(): Promise<void>;
}

/**
 * An HTTP server in front of `target`: the n-th request is answered by the n-th step, or each by the only one, and what has
 * no step by the server itself. Without a target nothing can be passed on.
 * @example const front = await startFront(server.endpoint, [hangsUp, refusesXml(503, 'SlowDown')]);
 */
export async function startFront(
  target: string | undefined,
  steps: readonly (Step | undefined)[] | Step,
): Promise<FrontServer> {
  const requests: Exchange[] = [];
  const server = createServer(async (request, response) => {
    const body = await buffer(request).catch(() => undefined);
    // The client has gone.
    if (body === undefined) return;
    const { method = '', url: path = '', headers } = request;
    const reach = (other?: string) =>
      passOn(`${target}${path}`, method, headers, other === undefined ? body : Buffer.from(other));
    const exchange = { method, path, headers, body: body.toString(), reach, response };
    // Of a step for all, requests may be too many to be kept.
    const step = typeof steps === 'function' ? steps : (steps[requests.push(exchange) - 1] ?? giveAnswer);
    try {
      await step(exchange);
    } catch {
      response.destroy();
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('expected a TCP address');
  return {
    endpoint: `http://127.0.0.1:${address.port}`,
    requests,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Passes the request on, and gives the server's answer. */
export async function giveAnswer({ reach, response }: Exchange): Promise<void> {
  const { status, headers, body } = await reach();
  response.writeHead(status, headers).end(body);
}

async function passOn(url: string, method: string, headers: IncomingHttpHeaders, body: Buffer): Promise<Answer> {
  const request = httpRequest(url, { method, headers: { ...headers, 'content-length': String(body.length) } }).end(
    body,
  );
  const [answer] = await once(request, 'response');
  return { status: answer.statusCode, headers: answer.headers, body: await buffer(answer) };
}

/** Passes requests on once there are so many, and knows the most that were under way at once. */
export function meter(count: number): { readonly step: Step; max(): number } {
  const allThere = Promise.withResolvers<void>();
  let arrived = 0;
  let underWay = 0;
  let max = 0;
  return {
    async step(exchange) {
      max = Math.max(max, ++underWay);
      // Any more would come within this time.
      if (++arrived === count) setImmediate(() => setImmediate(allThere.resolve));
      await allThere.promise;
      await giveAnswer(exchange);
      underWay -= 1;
    },
    max: () => max,
  };
}

/** Answers with JSON, as DynamoDB does. */
export function answersJson(status: number, document: unknown): Step {
  return ({ response }) => {
    response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(document));
  };
}

/** Refuses with an error of S3. */
export function refusesXml(status: number, code: string): Step {
  return ({ response }) => {
    const body = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>${code} it is</Message></Error>`;
    response.writeHead(status, { 'content-type': 'application/xml' }).end(body);
  };
}

/** Takes the request, keeps the connection, and says nothing. */
export const neverAnswers: Step = () => {};

/** Begins an answer that never ends. */
export function stallsAfter(start: string, headers: Readonly<Record<string, string>> = {}): Step {
  return ({ response }) => {
    response.writeHead(200, headers).write(start);
  };
}

/** Ends the connection with no answer. */
export const hangsUp: Step = ({ response }) => {
  response.destroy();
};
