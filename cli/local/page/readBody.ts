import type { IncomingMessage } from 'node:http';

export class BodyTooLargeError extends Error {
  override readonly name = 'BodyTooLargeError';
}

/** Of what a page may send: a request that somebody typed is far smaller. */
const MOST_BYTES = 64 * 1024;

/** @throws BodyTooLargeError, or Error for a body that is not JSON */
export async function readBody(request: IncomingMessage): Promise<unknown> {
  if (request.headers['content-type'] !== 'application/json') {
    throw new Error('content-type: expected application/json, got another');
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MOST_BYTES) throw new BodyTooLargeError(`body: expected at most ${MOST_BYTES} bytes, got more`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch (cause) {
    throw new Error('body: expected JSON, got something else', { cause });
  }
}
