import { hash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { createPutFile } from '../../../../cli/network/publishCommand.ts';
import { PART_BYTES, partsOf } from '../../../../lambda/aws/fetchModels.ts';
import { LARGE, someBytes, useS3Server } from '../../../helpers/awsServers.ts';

const server = useS3Server();
const NEVER = new AbortController().signal;

/** Describes `before`, and reads `now`. */
function changing(before: Uint8Array, now: Uint8Array) {
  const parts = partsOf(before.length).map(({ start, end }) => hash('sha256', before.subarray(start, end)));
  const read = async ({ start, end }: { start: number; end: number }) => Buffer.from(now.subarray(start, end));
  return { key: 'm/model.onnx', name: 'models/m/model.onnx', bytes: before.length, parts, read };
}

describe('a file that changes while it is published', () => {
  it.each([
    ['is small', someBytes(9), someBytes(9).with(3, 77)],
    ['gets shorter', someBytes(9), someBytes(8)],
    ['is sent in parts', LARGE, LARGE.with(PART_BYTES + 5, 77)],
  ])('is refused, and nothing is left of it: one that %s', async (_, before, now) => {
    const bucket = await server.bucket();
    const putFile = createPutFile({ s3: server.client(), bucket, signal: NEVER, onBytes: () => {} });

    await expect(putFile(changing(before, now))).rejects.toThrow(
      'models/m/model.onnx: expected what it held a moment ago, got something else; publish again when nobody writes to it',
    );

    expect(await server.keys(bucket)).toEqual([]);
  });
});
