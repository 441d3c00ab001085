import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import {
  digests,
  emptyFolder,
  fetching,
  filesIn,
  LARGE,
  publish,
  someBytes,
  untilPartsAre,
  useS3Server,
} from '../../../../helpers/awsServers.ts';
import type { Step } from '../../../../helpers/frontServer.ts';
import { giveAnswer, hangsUp } from '../../../../helpers/frontServer.ts';

const server = useS3Server();

const FILES = {
  'digits/1/model.onnx': LARGE,
  'digits/config.json': Buffer.from('{}'),
  'digits/1/empty.bin': new Uint8Array(),
  'tickets/2/model.onnx': someBytes(99),
  'tickets/1/a name with ü +&?%2F': someBytes(7),
};

/** Those of the empty file included, which is asked of nobody. */
const PARTS = 6;

describe('a published model repository', () => {
  it('is fetched as it was published, into a folder named by its digest', async () => {
    const { uri, digest } = await publish(server, FILES);
    const { directory, fetch } = await fetching(server);

    expect(await fetch(uri)).toBe(join(directory, digest));

    expect(digests(await filesIn(join(directory, digest)))).toEqual(digests(FILES));
    expect(await readdir(directory)).toEqual([digest]);
  });

  it('is fetched in parts of 8 MiB, many at a time, and no more than 16', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `digits/1/${index}`);
    const { uri, folder, bucket } = await publish(server, {
      ...Object.fromEntries(names.map((name) => [name, someBytes(9)])),
      'digits/1/model.onnx': LARGE,
    });
    const sixteen = Promise.withResolvers<void>();
    let underWay = 0;
    let max = 0;
    const holdUntilSixteen: Step = async (exchange) => {
      max = Math.max(max, ++underWay);
      // More than that would come while something else is answered.
      if (underWay === 16) await server.keys(bucket).then(() => sixteen.resolve());
      await sixteen.promise;
      await giveAnswer(exchange);
      underWay -= 1;
    };
    const { fetch, requests } = await fetching(server, { steps: [undefined, ...Array(42).fill(holdUntilSixteen)] });

    await fetch(uri);

    expect(max).toBe(16);
    const ranges = requests()
      .filter(({ path }) => path === `/${bucket}/${folder}/models/digits/1/model.onnx`)
      .map(({ range }) => range);
    expect(ranges.toSorted()).toEqual(['bytes=0-8388607', 'bytes=8388608-8389841']);
  });

  it('is used again by the next start, which asks for nothing', async () => {
    const { uri } = await publish(server, FILES);
    const { fetch, requests } = await fetching(server);
    const folder = await fetch(uri);
    const before = requests().length;

    expect(await fetch(uri)).toBe(folder);

    expect(requests()).toHaveLength(before);
  });

  it('is never taken for whole before it is; what a start left, the next one goes on with', async () => {
    const { uri, digest } = await publish(server, FILES);
    const directory = await emptyFolder();
    const breakOne: Step = async (exchange) => {
      if (!exchange.path.includes('tickets/2')) return giveAnswer(exchange);
      await untilPartsAre(directory, PARTS - 1);
      hangsUp(exchange);
    };
    const first = await fetching(server, { directory, steps: Array(9).fill(breakOne) });
    await expect(first.fetch(uri, { retry: { attempts: 1 } })).rejects.toThrow('tickets/2/model.onnx');
    expect(await readdir(directory)).not.toContain(digest);

    const second = await fetching(server, { directory });
    const folder = await second.fetch(uri);

    expect(second.requests().map(({ path }) => path.split(`${digest}/`)[1])).toEqual([
      'manifest.json',
      'models/tickets/2/model.onnx',
    ]);
    expect(digests(await filesIn(folder))).toEqual(digests(FILES));
    expect(await readdir(directory)).toEqual([digest]);
  });

  it('says how much was fetched, and how long that took', async () => {
    const { uri } = await publish(server, FILES);
    const { fetch } = await fetching(server);
    const said: string[] = [];

    await fetch(uri, { inform: (message) => void said.push(message) });

    expect(said).toEqual([expect.stringMatching(/^s3:\/\/.*: 8\.4 MB in 5 files fetched in \d+\.\d\d s$/)]);
  });
});
