/**
 * Server process that answers over TLS like S3, with a manifest and the files of a folder, at a limited rate per
 * connection.
 */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { ServedObjects } from '../coldStartBench.ts';
import { answerParent } from '../harness/child.ts';
import type { Certificate } from '../harness/processes.ts';

const CHUNK_BYTES = 256 * 1024;

answerParent(async ({ certificate, ...served }: ServedObjects & { readonly certificate: Certificate }) => {
  const server = createServer(certificate, async (request, response) => {
    await answer(served, request, response).catch(() => response.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
});

async function answer(served: ServedObjects, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [, path] = /\/models\/([^?]*)/.exec(request.url ?? '') ?? [];
  if (path === undefined) {
    response.end(served.manifest);
    return;
  }
  const file = join(served.directory, path);
  const { size } = await stat(file);
  const [, start, end] = (/bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? []).map(Number) as number[];
  const [first = 0, last = size - 1] = [start, end];
  response.writeHead(206, { 'content-length': last - first + 1, 'content-range': `bytes ${first}-${last}/${size}` });
  const began = performance.now();
  let sent = 0;
  for await (const chunk of createReadStream(file, { start: first, end: last, highWaterMark: CHUNK_BYTES })) {
    const dueMs = (1000 * sent) / served.bytesPerSecond;
    const earlyMs = dueMs - (performance.now() - began);
    // A timer takes at least a millisecond.
    if (earlyMs > 1) await setTimeout(earlyMs);
    if (!response.write(chunk)) await once(response, 'drain');
    sent += chunk.length;
  }
  response.end();
}
