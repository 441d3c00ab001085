import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { batchscore } from '../../helpers/batchscore.ts';
import { type RunningDev, startDev } from '../../helpers/command.ts';

/** A line that is too large for a message. */
const LARGE = JSON.stringify({
  instances: [Array.from({ length: 64 }, () => 1)],
  parameters: { pad: 'x'.repeat(2 ** 20) },
});

describe('the prefix of the payload bucket', () => {
  let dev: RunningDev;
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-prefix-'));
    writeFileSync(join(folder, 'large.jsonl'), `${LARGE}\n`);
    dev = await startDev(['--batch-size', '10', '--window', '0', '--results', 'queue,bucket'], {
      env: { BATCHSCORE_PAYLOAD_PREFIX: 'ignored/', BATCHSCORE_RESULT_PREFIX: 'ignored/' },
    });
  });
  afterAll(async () => {
    await dev.interrupt();
    rmSync(folder, { recursive: true });
  });

  /** Submits the line to a stack that says this much more. @returns the exit code of collect, and the result */
  async function scored(name: string, more: object, ...options: readonly string[]) {
    const [stack, ids, out] = ['stack.json', 'ids', 'results'].map((file) => join(folder, `${name}-${file}`)) as [
      string,
      string,
      string,
    ];
    writeFileSync(stack, JSON.stringify({ ...dev.stack, ...more }));
    const where = ['--stack', stack, ...options];
    const submitted = await batchscore(['submit', join(folder, 'large.jsonl'), '--ids', ids, ...where]);
    expect(submitted).toMatchObject({ code: 0 });
    const { code } = await batchscore(['collect', ids, '--out', out, '--timeout', '30', ...where]);
    return { code, result: JSON.parse(readFileSync(out, 'utf8')) };
  }

  /** What the keys in the payload bucket begin with, but for the ID at the end. */
  async function keys(): Promise<string[]> {
    const { s3Endpoint, region, payloadBucket: Bucket } = dev.stack;
    const credentials = { accessKeyId: 'any', secretAccessKey: 'any' };
    const s3 = new S3Client({ endpoint: s3Endpoint, region, credentials, forcePathStyle: true });
    const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket }));
    s3.destroy();
    return Contents.map(({ Key = '' }) => Key.slice(0, -36)).toSorted();
  }

  it('is none on this machine, whatever the environment says', async () => {
    expect(dev.stack).not.toHaveProperty('payloadPrefix');
    expect(await scored('plain', {})).toMatchObject({ code: 0, result: { predictions: [{}] } });
    expect(await keys()).toEqual(['requests/']);
  });

  it('is what the stack file says, and --payload-prefix before it', async () => {
    const refused = { code: 3, result: { code: 'INVALID_POINTER' } };
    expect(await scored('file', { payloadPrefix: 'file/' })).toMatchObject(refused);
    expect(await scored('option', { payloadPrefix: 'file/' }, '--payload-prefix', 'option/')).toMatchObject(refused);
    expect(await keys()).toEqual(['file/requests/', 'option/requests/', 'requests/']);
  });
});
