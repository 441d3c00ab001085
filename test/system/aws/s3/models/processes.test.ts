import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
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
import { runScript } from '../../../../helpers/command.ts';
import { giveAnswer, type Step } from '../../../../helpers/frontServer.ts';

const server = useS3Server();
const SCRIPT = 'test/system/aws/s3/models/fetchProcess.ts';
const FILES = {
  'digits/1/model.onnx': LARGE,
  'digits/config.json': Buffer.from('{}'),
  'last/1/model.onnx': someBytes(9),
};

function environment(endpoint: string): Record<string, string> {
  return { AWS_ENDPOINT_URL_S3: endpoint, AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' };
}

describe('starts in one environment', () => {
  it('go on where one was ended in the middle', async () => {
    const { uri, digest } = await publish(server, FILES);
    const directory = await emptyFolder();
    const front = await server.front(...Array<Step>(9).fill((exchange) => unlessLast(exchange)));
    const ended = spawn(
      process.execPath,
      [fileURLToPath(new URL('./fetchProcess.ts', import.meta.url)), uri, directory],
      {
        env: { ...process.env, ...environment(front.endpoint) },
      },
    );
    await untilPartsAre(directory, 3);
    ended.kill('SIGKILL');
    await once(ended, 'close');
    expect(await readdir(directory)).not.toContain(digest);

    const { fetch, requests } = await fetching(server, { directory });
    const folder = await fetch(uri);

    expect(digests(await filesIn(folder))).toEqual(digests(FILES));
    expect(requests().map(({ path }) => path.split(`${digest}/`)[1])).toEqual([
      'manifest.json',
      'models/last/1/model.onnx',
    ]);
    expect(await readdir(directory)).toEqual([digest]);
  });

  it('do not disturb each other when they fetch at once', async () => {
    const { uri, digest } = await publish(server, FILES);
    const directory = await emptyFolder();
    const together = Promise.withResolvers<void>();
    let arrived = 0;
    const bothAtOnce: Step = async (exchange) => {
      if (exchange.path.includes('last/1') && ++arrived === 2) together.resolve();
      if (exchange.path.includes('last/1')) await together.promise;
      await giveAnswer(exchange);
    };
    const front = await server.front(...Array<Step>(12).fill(bothAtOnce));
    const fetch = () => runScript(SCRIPT, [uri, directory], { env: environment(front.endpoint) });

    const whole = { code: 0, stdout: join(directory, digest), stderr: '' };
    expect(await Promise.all([fetch(), fetch()])).toEqual([whole, whole]);

    expect(digests(await filesIn(join(directory, digest)))).toEqual(digests(FILES));
    expect(await readdir(directory)).toEqual([digest]);
  });
});

/** The last file is never answered. */
async function unlessLast(exchange: Parameters<Step>[0]): Promise<void> {
  if (!exchange.path.includes('last/1')) await giveAnswer(exchange);
}
