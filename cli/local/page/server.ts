import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hasCode } from '../../../lambda/aws/awsError.ts';
import { messageOf } from '../../../lambda/core/failure.ts';

import { FILES, type PageFile } from './files.ts';
import { refusal } from './guard.ts';
import { BodyTooLargeError, readBody } from './readBody.ts';
import { MOST_PAGES } from './stream.ts';

/** What the page may ask for. Each takes the parsed JSON that came; what it throws is told to the page in its words. */
export type Control = (body: unknown) => Promise<object> | object;

export interface PageServerOptions {
  /** On 127.0.0.1; undefined: `preferredPort` where it is free, else any. */
  readonly port: number | undefined;
  readonly preferredPort: number;
  /** Begins a stream. @returns false where there are too many */
  readonly openStream: (response: ServerResponse) => boolean;
  /** By their paths. */
  readonly controls: Readonly<Record<string, Control>>;
}

export interface PageServer {
  /** `http://127.0.0.1:PORT/` */
  readonly url: string;
  close(): Promise<void>;
}

export const STREAM_PATH = '/events';
/** A browser opens six for a page. */
const MOST_CONNECTIONS = 64;

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

/** @throws Error when the port that was asked for is taken */
export async function startPageServer(options: PageServerOptions): Promise<PageServer> {
  const server = createServer((request, response) => {
    answer(request, response, options).catch((error: unknown) => refuse(response, 500, messageOf(error)));
  });
  server.maxConnections = MOST_CONNECTIONS;
  await listen(server, options);
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function listen(server: Server, { port, preferredPort }: PageServerOptions): Promise<void> {
  try {
    await listenOn(server, port ?? preferredPort);
  } catch (error) {
    if (!hasCode(error, 'EADDRINUSE')) throw error;
    if (port === undefined) return listenOn(server, 0);
    throw new Error(
      `--page-port: expected ${port} on 127.0.0.1 to be free for the page, got another program that listens there; ` +
        'stop that program, name another port, or leave the option out',
      { cause: error },
    );
  }
}

function listenOn(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
}

async function answer(request: IncomingMessage, response: ServerResponse, options: PageServerOptions): Promise<void> {
  for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
  const { method = '', headers } = request;
  const path = (request.url ?? '').split('?')[0] ?? '';
  const file = FILES.get(path);
  const port = request.socket.localPort ?? 0;
  const refused = refusal({ method, headers, isPrivate: file === undefined }, port);
  if (refused !== undefined) return refuse(response, 403, refused);
  if (method === 'GET' && file !== undefined) return sendFile(response, file);
  if (method === 'GET' && path === STREAM_PATH) return stream(response, options);
  const control = options.controls[path];
  if (method === 'POST' && control !== undefined) return ask(request, response, control);
  refuse(response, 404, `${method} ${path.slice(0, 100)}: there is no such thing here`);
}

async function sendFile(response: ServerResponse, { type, read }: PageFile): Promise<void> {
  const text = await read();
  response.writeHead(200, { 'content-type': type }).end(text);
}

function stream(response: ServerResponse, { openStream }: PageServerOptions): void {
  if (openStream(response)) return;
  refuse(response, 503, `expected at most ${MOST_PAGES} open pages, got one more; close another`);
}

async function ask(request: IncomingMessage, response: ServerResponse, control: Control): Promise<void> {
  try {
    const answered = await control(await readBody(request));
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answered));
  } catch (error) {
    refuse(response, error instanceof BodyTooLargeError ? 413 : 400, messageOf(error));
  }
}

function refuse(response: ServerResponse, status: number, error: string): void {
  if (response.headersSent) return void response.destroy();
  response
    .writeHead(status, { 'content-type': 'application/json', connection: 'close' })
    .end(JSON.stringify({ error }));
}
