import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { createStream } from '../../../../../cli/local/page/pageServer.ts';
import type { State } from '../../../../../cli/local/page/wire.ts';

const STATE: State = {
  ...{ models: [], loadModels: ['x'.repeat(1024 * 1024)], queues: undefined },
  ...{ totals: { messages: 0, answered: 0, errors: {}, retries: {} }, seconds: [], invocations: [] },
  ...{ results: [], errors: [] },
  settings: { batchSize: 1, windowSeconds: 1, load: { perSecond: 0, model: '' } },
};

describe('the stream of events', () => {
  it('cuts off a page that does not read, and holds no more for it than 4 MiB and what was written last', async () => {
    const dropped = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<void>();
    const stream = createStream({ onWatched: (isWatched) => (isWatched ? opened : dropped).resolve() });
    const server = createServer((_, response) => void stream.open(response, STATE));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const reader = get(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, (response) => response.pause());
    reader.on('error', () => {});
    await opened.promise;

    let told = 0;
    while (stream.isWatched() && told < 256) {
      stream.tell('state', STATE);
      told += 1;
      await new Promise((resolve) => setImmediate(resolve));
    }
    await dropped.promise;
    expect(stream.isWatched()).toBe(false);
    expect(told).toBeLessThan(64);
    reader.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
});
