import { once } from 'node:events';
import { createServer } from 'node:http';
import { messageOf } from '../core/contract/failure.ts';

export interface Health {
  /** Whether it works; one that does not should be replaced. */
  isLive(): boolean;
  /** Whether it receives messages: its models are warm, and it was not told to stop. */
  isReady(): boolean;
}

const STATES: Readonly<Record<string, keyof Health>> = { '/live': 'isLive', '/ready': 'isReady' };

/**
 * Answers `GET /live` and `GET /ready` on 127.0.0.1 with 200 or 503, for the health check of a container.
 *
 * @returns what closes it
 * @throws Error when the port is taken
 * @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/healthcheck.html
 */
export async function openHealthPort(port: number, health: Health): Promise<() => void> {
  const server = createServer(({ url = '' }, response) => {
    const state = STATES[url];
    const status = state === undefined ? 404 : health[state]() ? 200 : 503;
    response.writeHead(status, { connection: 'close' }).end();
  });
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw new Error(
      `health port: expected ${port} on 127.0.0.1 to be free, got '${messageOf(cause)}'; name another port`,
      { cause },
    );
  }
  return () => server.close();
}
