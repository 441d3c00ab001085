import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { runScript } from '../helpers/command.ts';
import { startFront } from '../helpers/frontServer.ts';

/** Commands that reach no deployment. */
describe('batchscore submit and collect, without a deployment', () => {
  let folder: string;
  let ids: string;
  let out: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-cli-'));
    ids = join(folder, 'ids');
    out = join(folder, 'results.jsonl');
    writeFileSync(ids, '{"line":1,"message_id":"a"}\n{"line":2,"message_id":"b"}\n');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const batchscore = (...args: readonly string[]) => runScript('cli/batchscore.ts', args);

  /** Names an endpoint where nothing listens any more. */
  async function deadStack(keys: Readonly<Record<string, string>>): Promise<string> {
    const { endpoint, stop } = await startFront(undefined, []);
    await stop();
    const file = join(folder, 'stack.json');
    writeFileSync(file, JSON.stringify({ endpoint, region: 'us-east-1', ...keys }));
    return file;
  }

  it('say of a store that cannot be read why, and how many results are missing', async () => {
    const queueUrl = 'http://127.0.0.1/queue';
    const stack = await deadStack({ requestQueueUrl: queueUrl, resultQueueUrl: queueUrl });
    const { code, stdout, stderr } = await batchscore('collect', ids, '--out', out, '--stack', stack, '--timeout', '2');
    expect({ code, stdout }).toEqual({
      code: 1,
      stdout: `0 of 2 results are in ${out}, 0 with an error, 2 missing\n`,
    });
    expect(stderr).toMatch(/2 are missing; the result store could not be read: .*ECONNREFUSED/);
  });
});
