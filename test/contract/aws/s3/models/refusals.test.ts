import { chmod, mkdir, readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { describe, expect, it } from '@jest/globals';
import { PART_BYTES } from '../../../../../lambda/aws/fetchModels.ts';
import type { Patience } from '../../../../../lambda/aws/sqsWire.ts';
import {
  digests,
  emptyFolder,
  fetching,
  filesIn,
  LARGE,
  manifestOf,
  publish,
  someBytes,
  useS3Server,
} from '../../../../helpers/awsServers.ts';
import { hangsUp, neverAnswers, refusesXml, type Step, stallsAfter } from '../../../../helpers/frontServer.ts';

const server = useS3Server();
/** Enough for what is answered, on a busy machine too. */
const IMPATIENT: Patience = { connectMs: 700, answerMs: 700 };
const ONE_FILE = { 'digits/1/model.onnx': someBytes(4) };
const LENGTH = { 'content-length': '4', 'content-range': 'bytes 0-3/4' };

describe('an object that breaks', () => {
  it.each<[string, Step]>([
    ['is refused for a while', refusesXml(503, 'SlowDown')],
    ['is not answered', neverAnswers],
    ['stalls', stallsAfter('te', LENGTH)],
    ['loses its connection', hangsUp],
    ['ends too soon', ({ response }) => void response.writeHead(206, { 'content-range': 'bytes 0-3/4' }).end('te')],
    [
      'goes on for too long',
      ({ response }) => void response.writeHead(206, { 'content-range': 'bytes 0-3/4' }).end('text and more'),
    ],
  ])('is asked for again when it %s: the manifest, and then a file', async (_, step) => {
    const { uri } = await publish(server, ONE_FILE);
    const { fetch, requests } = await fetching(server, { patience: IMPATIENT, steps: [step, undefined, step] });

    const folder = await fetch(uri);

    expect(digests(await filesIn(folder))).toEqual(digests(ONE_FILE));
    expect(requests()).toHaveLength(4);
  });

  it('is asked for again when it trickles for longer than it may take', async () => {
    const { uri } = await publish(server, ONE_FILE);
    const trickle: Step = ({ response }) => {
      response.writeHead(206, { 'content-range': 'bytes 0-3/4', 'content-length': '4' });
      const timer = setInterval(() => response.write('t'), 400).unref();
      response.once('close', () => clearInterval(timer));
    };
    const { fetch, requests } = await fetching(server, { patience: IMPATIENT, steps: [undefined, trickle] });

    await fetch(uri, { limitMs: 1_000 });

    expect(requests()).toHaveLength(3);
  });

  it('is given up after six attempts, in one sentence, and nothing is left under way', async () => {
    const { uri } = await publish(server, ONE_FILE);
    const { fetch, requests } = await fetching(server, {
      steps: [undefined, ...Array<Step>(9).fill(refusesXml(503, 'SlowDown'))],
    });

    await expect(fetch(uri)).rejects.toThrow(
      /^s3:\/\/.*\/models\/digits\/1\/model\.onnx: expected to read it, got SlowDown: SlowDown it is, in 6 attempts; check that the function reaches S3$/,
    );

    expect(requests()).toHaveLength(7);
  });

  it('ends the others, too', async () => {
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`digits/1/${index}`, someBytes(9)]));
    const { uri } = await publish(server, many);
    const { fetch, requests } = await fetching(server, { steps: [undefined, refusesXml(403, 'AccessDenied')] });

    await expect(fetch(uri)).rejects.toThrow('AccessDenied');

    expect(requests().length).toBeLessThan(150);
  });
});

describe('what is not what was published', () => {
  it.each([
    [
      'a part',
      { 'digits/1/model.onnx': LARGE.with(PART_BYTES + 1, 77) },
      /SHA-256 [0-9a-f]{64} of bytes 8388608 to 8389842, got [0-9a-f]{64}/,
    ],
    ['a size', { 'digits/1/model.onnx': LARGE.subarray(1) }, /expected 8389842 bytes, got 8389841/],
  ])('is refused: %s of another content', async (_, changed, got) => {
    const { uri, digest } = await publish(server, changed, manifestOf({ 'digits/1/model.onnx': LARGE }));
    const { directory, fetch } = await fetching(server);

    const refusal = fetch(uri);

    await expect(refusal).rejects.toThrow(got);
    await expect(refusal).rejects.toThrow(/; delete it, publish the models again, and deploy$/);
    expect(await readdir(directory)).not.toContain(digest);
  });

  it('is refused: a manifest of another digest', async () => {
    const { bucket, folder, uri, digest } = await publish(server, ONE_FILE);
    await server.put(bucket, `${folder}/manifest.json`, manifestOf({ 'digits/1/model.onnx': someBytes(5) }));
    const { fetch, requests } = await fetching(server);

    await expect(fetch(uri)).rejects.toThrow(
      new RegExp(
        `^s3://${bucket}/${folder}/manifest.json: expected SHA-256 ${digest}, got [0-9a-f]{64}; it is not what was published: publish again, and deploy$`,
      ),
    );
    expect(requests()).toHaveLength(1);
  });

  it.each([
    ['above the folder', 'digits/../../evil.onnx'],
    ['an absolute one', '/tmp/evil.onnx'],
    ['one of another system', 'digits\\..\\evil.onnx'],
    ['one with a line break', 'digits/evil\n.onnx'],
    ['a folder itself', 'digits/.'],
    ['nothing', ''],
  ])('is refused: a path that leads elsewhere, %s', async (_, path) => {
    const { uri } = await publish(
      server,
      {},
      manifestOf({ 'digits/1/model.onnx': someBytes(1), [path]: someBytes(1) }),
    );
    const { directory, fetch, requests } = await fetching(server);

    await expect(fetch(uri)).rejects.toThrow(
      /manifest\.json: expected a manifest that this version reads, got files\.\d\.path: expected a path below the models/,
    );

    expect(requests()).toHaveLength(1);
    expect(await readdir(directory)).toEqual([]);
  });

  it.each([
    ['two files of one path', (text: string) => text.replace('b/1', 'a/1')],
    ['a file below a file', (text: string) => text.replace('b/1', 'a/1/model.onnx/b/1')],
    ['a part without a checksum', (text: string) => text.replace(/"parts": \[\s+"[0-9a-f]+"/, '"parts": [')],
    ['a format to come', (text: string) => text.replace('"format": 1', '"format": 2')],
    ['parts of another size', (text: string) => text.replace('8388608', '4194304')],
    ['no JSON', () => '{'],
    ['no files', () => '{"format":1,"partBytes":8388608,"files":[]}'],
  ])('is refused: a manifest with %s', async (_, change) => {
    const text = manifestOf({ 'a/1/model.onnx': someBytes(1), 'b/1/model.onnx': someBytes(2) });
    const { uri } = await publish(server, {}, change(text));
    const { fetch } = await fetching(server);

    await expect(fetch(uri)).rejects.toThrow(
      /manifest\.json: expected a manifest that this version reads, got .*; publish the models again$/,
    );
  });

  it('is refused: a manifest larger than any', async () => {
    const { uri } = await publish(server, {}, ' '.repeat(8 * 1024 * 1024 + 1));
    const { fetch } = await fetching(server);

    await expect(fetch(uri)).rejects.toThrow(/manifest\.json: expected at most 8388608 bytes, got 8388609$/);
  });
});

describe('what S3 refuses', () => {
  it.each([
    ['no manifest', 404, 'NoSuchKey', /got nothing; publish the models again, or correct the URI$/],
    ['no bucket', 404, 'NoSuchBucket', /got none of that name; correct the URI$/],
    [
      'no permission',
      403,
      'AccessDenied',
      /got AccessDenied; allow s3:GetObject on arn:aws:s3:::bucket-\d+\/team\/models\/[0-9a-f]{64}\/\*, .*kms:Decrypt/,
    ],
    ['another region', 301, 'PermanentRedirect', /expected a bucket in the function's region, got PermanentRedirect/],
    ['anything else', 400, 'InvalidRequest', /expected to read it, got InvalidRequest: InvalidRequest it is$/],
  ])('is said at once: %s', async (_, status, code, message) => {
    const { uri } = await publish(server, ONE_FILE);
    const { fetch, requests } = await fetching(server, { steps: [refusesXml(status, code)] });

    await expect(fetch(uri)).rejects.toThrow(message);

    expect(requests()).toHaveLength(1);
  });
});

describe('the disk', () => {
  it('is asked for room before anything is downloaded', async () => {
    const { uri } = await publish(server, { 'digits/1/model.onnx': LARGE });
    const { directory, fetch, requests } = await fetching(server);

    await expect(fetch(uri, { freeBytes: async () => LARGE.length - 1 })).rejects.toThrow(
      `${uri}: expected 8.4 MB of room in ${directory}, got 8.3 MB; raise ephemeralStorageSize`,
    );
    expect(requests()).toHaveLength(1);
    await fetch(uri, { freeBytes: async () => LARGE.length });
  });

  it('is full all the same when something else fills it: that is said of the file, at once', async () => {
    const { uri, digest } = await publish(server, ONE_FILE);
    const { directory, fetch, requests } = await fetching(server);
    const folder = join(directory, `${digest}.part-${process.pid}-${threadId}`, 'files', 'digits', '1');
    await mkdir(folder, { recursive: true });
    await symlink('/dev/full', join(folder, 'model.onnx'));

    await expect(fetch(uri)).rejects.toThrow(
      /\/models\/digits\/1\/model\.onnx: expected room for it, got a full disk; raise ephemeralStorageSize/,
    );
    expect(requests()).toHaveLength(2);
  });

  it('is not shared: a folder that others may write to is refused', async () => {
    const directory = await emptyFolder();
    await chmod(directory, 0o777);
    const { fetch } = await fetching(server, { directory });

    await expect(fetch(`s3://bucket/${'0'.repeat(64)}`)).rejects.toThrow(
      `${directory}: expected a folder that only this user can write to, got another; remove it`,
    );
  });
});

describe('a URI', () => {
  it('without a digest is refused', async () => {
    const { fetch } = await fetching(server);

    await expect(fetch('s3://bucket/models')).rejects.toThrow(
      "models: expected the URI that batchscore publish printed, s3://bucket/prefix/<digest>, got 's3://bucket/models'",
    );
  });
});
