import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { hasCode, messageOf } from '../../lambda/core/failure.ts';
import { serveOnLoopback } from '../local/localServices.ts';
import { bundlePage, pageFile } from './pageFiles.ts';

/** Action that the page may request. It takes the parsed JSON body, and the page shows the message of its error. */
export type Control = (body: unknown) => Promise<object> | object;

interface PageServerOptions {
  /** Port on 127.0.0.1. If undefined, it is `preferredPort`, or a free one if that is taken. */
  readonly port: number | undefined;
  readonly preferredPort: number;
  readonly controls: Readonly<Record<string, Control>>;
}

export type PageServer = Awaited<ReturnType<typeof startPageServer>>;

/** Maximum number of connections. A browser opens six for a page. */
const MAX_CONNECTIONS = 64;

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

/** @throws Error if the requested port is taken */
export async function startPageServer(options: PageServerOptions) {
  const server = createServer((request, response) => {
    answer(request, response, options).catch((error: unknown) => refuse(response, 500, messageOf(error)));
  });
  server.maxConnections = MAX_CONNECTIONS;
  const { url, close } = await listen(server, options);
  return { url: `${url}/`, close };
}

async function listen(server: Server, { port, preferredPort }: PageServerOptions) {
  try {
    return await serveOnLoopback(server, port ?? preferredPort);
  } catch (error) {
    if (!hasCode(error, 'EADDRINUSE')) throw error;
    if (port === undefined) return serveOnLoopback(server);
    throw new Error(
      `--page-port: expected ${port} on 127.0.0.1 to be free for the page, got another program that listens there; ` +
        'stop that program, name another port, or leave the option out',
      { cause: error },
    );
  }
}

async function answer(request: IncomingMessage, response: ServerResponse, options: PageServerOptions): Promise<void> {
  for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
  const { method = '' } = request;
  const path = (request.url ?? '').split('?')[0] ?? '';
  const refused = refusal(request);
  if (refused !== undefined) return refuse(response, 403, refused);
  const file = FILES.get(path);
  const control = options.controls[path];
  if (method === 'GET' && file !== undefined) {
    const text = await file.read();
    response.writeHead(200, { 'content-type': file.type }).end(text);
  } else if (method === 'POST' && control !== undefined) await ask(request, response, control);
  else refuse(response, 404, `${method} ${path.slice(0, 100)}: there is no such thing here`);
}

async function ask(request: IncomingMessage, response: ServerResponse, control: Control): Promise<void> {
  try {
    const answered = await control(await readBody(request));
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answered));
  } catch (error) {
    refuse(response, 400, messageOf(error));
  }
}

function refuse(response: ServerResponse, status: number, error: string): void {
  if (response.headersSent) return void response.destroy();
  response
    .writeHead(status, { 'content-type': 'application/json', connection: 'close' })
    .end(JSON.stringify({ error }));
}

/**
 * Returns the reason to refuse a request. Pages of other sites must not reach this server, by its address or by a name
 * that resolves to this machine. Everything except the page's files is a POST, which browsers send with their origin.
 *
 * @returns undefined if the page itself sent the request
 */
function refusal({ method, headers, socket }: IncomingMessage): string | undefined {
  const { host = '', origin } = headers;
  const hosts = [`127.0.0.1:${socket.localPort}`, `localhost:${socket.localPort}`];
  if (!hosts.includes(host)) return `Host: expected ${hosts.join(' or ')}, got another; open the page by its address`;
  const own = `http://${host}`;
  if (origin === own || (origin === undefined && method === 'GET')) return undefined;
  return `Origin: expected ${own}, got ${origin === undefined ? 'none' : 'another'}; only the page itself may ask`;
}

/** Maximum size of a request body. Requests that users type are far smaller. */
const MAX_BYTES = 64 * 1024;

/** @throws Error if the body is too large or is not JSON */
function readBody(request: IncomingMessage): Promise<unknown> {
  const { 'content-type': type, 'content-length': bytes } = request.headers;
  if (type !== 'application/json') throw new Error('content-type: expected application/json, got another');
  if (!(Number(bytes) <= MAX_BYTES)) throw new Error(`body: expected at most ${MAX_BYTES} bytes, got more`);
  return json(request).catch((cause: unknown) => {
    throw new Error('body: expected JSON, got something else', { cause });
  });
}

interface PageFile {
  readonly type: string;
  readonly read: () => Promise<string>;
}

let bundle: ReturnType<typeof bundlePage> | undefined;

/** Returns the bundle. It is built when a browser first asks, because most stacks are never viewed. */
function bundled(): ReturnType<typeof bundlePage> {
  bundle ??= bundlePage('dev');
  return bundle;
}

const FILES: ReadonlyMap<string, PageFile> = new Map([
  ['/', { type: 'text/html; charset=utf-8', read: () => pageFile('dev.html') }],
  ['/icon.svg', { type: 'image/svg+xml', read: () => pageFile('icon.svg') }],
  ['/dev.js', { type: 'text/javascript; charset=utf-8', read: async () => (await bundled()).script }],
  ['/dev.css', { type: 'text/css; charset=utf-8', read: async () => (await bundled()).style }],
]);
