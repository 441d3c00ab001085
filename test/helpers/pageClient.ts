import { type IncomingMessage, request } from 'node:http';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

export interface Asking {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Asks the server of a page as any program could, with headers that no browser would let a page send. */
export async function ask(url: string, { method = 'GET', path = '/', headers = {}, body }: Asking): Promise<Answer> {
  const response = await respond(url, { method, path, headers, body });
  let text = '';
  for await (const chunk of response) text += chunk;
  return { status: response.statusCode ?? 0, headers: response.headers, text };
}

/** As the page itself asks. */
export function post(url: string, path: string, body: unknown): Promise<Answer> {
  const headers = { origin: new URL(url).origin, 'content-type': 'application/json' };
  return ask(url, { method: 'POST', path, headers, body: JSON.stringify(body) });
}

export interface Events {
  /** Waits for the next event of this name, of those that nobody waited for yet. */
  next<T>(name: string, holds?: (data: T) => boolean): Promise<T>;
  close(): void;
}

/** Reads the stream of events as the page does. */
export async function listen(url: string): Promise<Events> {
  const headers = { 'sec-fetch-site': 'same-origin' };
  const response = await respond(url, { method: 'GET', path: '/events', headers });
  if (response.statusCode !== 200) throw new Error(`expected a stream, got ${response.statusCode}`);
  const arrived: { readonly name: string; readonly data: unknown }[] = [];
  let wake = (): void => {};
  let rest = '';
  response.setEncoding('utf8').on('data', (chunk: string) => {
    const parts = `${rest}${chunk}`.split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) {
      const [, name = '', data = ''] = /^event: (\w+)\ndata: (.*)$/s.exec(part) ?? [];
      arrived.push({ name, data: JSON.parse(data) });
    }
    wake();
  });
  return {
    async next<T>(name: string, holds: (data: T) => boolean = () => true): Promise<T> {
      for (;;) {
        const index = arrived.findIndex((event) => event.name === name && holds(event.data as T));
        if (index >= 0) return arrived.splice(index, 1)[0]?.data as T;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    close: () => void response.destroy(),
  };
}

function respond(url: string, { method, path, headers, body }: Asking): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asking = request(new URL(url), { method, path, headers, agent: false }, resolve);
    asking.on('error', reject);
    asking.end(body);
  });
}
