import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';

/** No name but these leads to this machine whoever resolves it. */
const OWN_NAMES = /^(127\.0\.0\.1|\[::1\]|([\w-]+\.)*localhost)$/;
const EXPECTED = 'expected 127.0.0.1 or localhost, got another';

/**
 * Has a server of the local stack refuse what a page of another site sends, by its address or by a name that was made to
 * point to this machine. To be called once the server has what it answers with.
 */
export function refuseForeignCallers(server: Server): void {
  const answers = server.listeners('request');
  server.removeAllListeners('request');
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const refused = refusal(request.headers);
    if (refused === undefined) {
      for (const answer of answers) Reflect.apply(answer, server, [request, response]);
      return;
    }
    request.resume();
    response.writeHead(403, { 'content-type': 'application/json', connection: 'close' });
    response.end(JSON.stringify({ __type: 'AccessDenied', message: refused }));
  });
}

function refusal({ host = '', origin }: IncomingHttpHeaders): string | undefined {
  if (!isOwn(`http://${host}`)) return `Host: ${EXPECTED}; call the address that npm run dev prints`;
  if (origin === undefined || isOwn(origin)) return undefined;
  return `Origin: ${EXPECTED}; only pages of this machine may call`;
}

function isOwn(url: string): boolean {
  return OWN_NAMES.test(URL.parse(url)?.hostname ?? '');
}
