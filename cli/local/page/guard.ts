import type { IncomingHttpHeaders } from 'node:http';

export interface Asked {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** Whether it changes anything, or shows what other sites must not read. */
  readonly isPrivate: boolean;
}

/**
 * Why a request is refused: no page of another site may reach this one, by its address or by a name that was made to
 * point to this machine.
 *
 * @param port that the page is served on
 * @returns undefined for a request of the page itself
 * @see https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Sec-Fetch-Site
 */
export function refusal({ method, headers, isPrivate }: Asked, port: number): string | undefined {
  const { host = '', origin } = headers;
  const hosts = [`127.0.0.1:${port}`, `localhost:${port}`];
  if (!hosts.includes(host)) return `Host: expected ${hosts.join(' or ')}, got another; open the page by its address`;
  const own = `http://${host}`;
  if (origin !== undefined && origin !== own)
    return `Origin: expected ${own}, got another; only the page itself may ask`;
  if (!isPrivate || origin === own) return undefined;
  // A browser leaves Origin out where a page reads from its own server, and says so in another header.
  if (method === 'GET' && headers['sec-fetch-site'] === 'same-origin') return undefined;
  return `Origin: expected ${own}, got none; only the page itself may ask`;
}
