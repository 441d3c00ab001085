import { setTimeout } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { HeadObjectCommand } from '@aws-sdk/client-s3';
import { describe, expect, it } from '@jest/globals';
import { createJobStorage } from '../../../lambda/aws/jobStorage.ts';
import type { JobInput } from '../../../lambda/jobs/jobFiles.ts';
import type { JobHead } from '../../../lambda/jobs/jobTypes.ts';
import { openText } from '../../../lambda/jobs/textRows.ts';
import { useS3Server } from '../../helpers/awsServers.ts';
import { hangsUp, type Step } from '../../helpers/frontServer.ts';

const server = useS3Server();
const RETRY = { baseMs: 1 };
const MIB = 1024 * 1024;
/** A pause that no test waits for: it would run into jest's time limit. */
const IN_AN_HOUR = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 1 };

async function inputIn(bucket: string, key: string): Promise<JobInput> {
  const { ETag: etag = '', ContentLength: bytes = 0 } = await server
    .client()
    .send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
  return { bucket, key, etag, bytes };
}

describe('the storage of jobs', () => {
  it('reads ranges, and all, of the version that is meant', async () => {
    const bucket = await server.bucket();
    const storage = createJobStorage({ s3: server.client(), bucket });
    await server.put(bucket, 'in/a.jsonl', 'one\ntwo\n');
    const input = await inputIn(bucket, 'in/a.jsonl');
    expect(Buffer.from(await storage.readRange(input, { start: 3, end: 8 })).toString()).toBe('\ntwo\n');
    const chunks = await Array.fromAsync(storage.readAll(input));
    expect(Buffer.concat(chunks).toString()).toBe('one\ntwo\n');
  });

  it('reads all of a compressed object, however long a piece of it takes in between, and through what fails', async () => {
    const bucket = await server.bucket();
    const lines = Array.from({ length: 10 }, (_, index) => `{"id":"${index}${'x'.repeat(MIB)}"}\n`);
    await server.put(bucket, 'in/a.jsonl.gz', gzipSync(lines.join(''), { level: 0 }));
    const input = await inputIn(bucket, 'in/a.jsonl.gz');
    const front = await server.front(undefined, hangsUp);
    const patience = { connectMs: 3_000, answerMs: 300 };
    const storage = createJobStorage({ s3: server.client(front, patience), bucket, retry: RETRY });
    const head: JobHead = {
      ...{ ...input, job: 'job', model: 'line', version: '1', parts: 1, keep: [], results: 'jsonl', plannedAt: '' },
      ...{ format: 'jsonl', compression: 'gzip', partBytes: 6 * MIB, pieceBytes: MIB },
    };
    const reader = openText(storage, head, { start: 0 }, 2 * MIB);
    const read: string[] = [];
    for (let piece = 0; ; piece++) {
      const rows = await reader.read(piece, () => true);
      const some = rows?.take(100);
      for (let row = 0; row < (some?.length ?? 0); row++) read.push(`${some?.requestOf(row)}\n`);
      if (rows?.isLast !== false) break;
      if (piece === 0) await setTimeout(3 * patience.answerMs);
    }
    reader.close();
    expect(read.map((line) => line.length)).toEqual(lines.map((line) => line.length));
    expect(read).toEqual(lines);
    expect(new Set(front.requests.map(({ headers }) => headers['if-match']))).toEqual(new Set([input.etag]));
  });

  it('refuses to read another version, or none', async () => {
    const bucket = await server.bucket();
    const storage = createJobStorage({ s3: server.client(), bucket, retry: IN_AN_HOUR });
    await server.put(bucket, 'in/a.jsonl', 'one\n');
    const input = await inputIn(bucket, 'in/a.jsonl');
    await server.put(bucket, 'in/a.jsonl', 'two\n');
    await expect(storage.readRange(input, { start: 0, end: 1 })).rejects.toMatchObject({ name: 'INPUT_CHANGED' });
    await expect(Array.fromAsync(storage.readAll(input))).rejects.toMatchObject({ name: 'INPUT_CHANGED' });
    const gone = { ...input, key: 'in/b.jsonl' };
    await expect(storage.readRange(gone, { start: 0, end: 1 })).rejects.toMatchObject({ name: 'INPUT_NOT_FOUND' });
  });

  it('puts, gets, lists in order and removes', async () => {
    const bucket = await server.bucket();
    const storage = createJobStorage({ s3: server.client(), bucket });
    expect(await storage.get('out/a')).toBeUndefined();
    for (const key of ['out/b', 'out/a', 'other/c']) await storage.put(key, key);
    expect(await storage.get('out/a')).toBe('out/a');
    await storage.remove('out/b');
    await storage.remove('out/b');
    expect(await Array.fromAsync(storage.list('out/'))).toEqual([
      { key: 'out/a', etag: expect.stringMatching(/^"[0-9a-f]{32}"$/), bytes: 5 },
    ]);
  });

  it('puts an object once, and tells what was said about it', async () => {
    const bucket = await server.bucket();
    // The server knows no conditions of puts: S3's answers are in its place.
    const refused: Step = ({ response }) =>
      void response.writeHead(412).end('<Error><Code>PreconditionFailed</Code></Error>');
    const conflict: Step = ({ response }) =>
      void response.writeHead(409).end('<Error><Code>ConditionalRequestConflict</Code></Error>');
    const front = await server.front(conflict, undefined, refused);
    const storage = createJobStorage({ s3: server.client(front), bucket, retry: RETRY });
    expect(await storage.putNew('out/a', Buffer.from('rows'), '{"rows":1}')).toBe(true);
    expect(await storage.putNew('out/a', Buffer.from('others'), '{"rows":2}')).toBe(false);
    expect(front.requests.map(({ headers }) => headers['if-none-match'])).toEqual(['*', '*', '*']);
    expect(await storage.look('out/a')).toMatchObject({ about: '{"rows":1}', bytes: 4 });
    expect(await storage.look('out/b')).toBeUndefined();
  });

  it('tries again what fails for a while, and says what it met when that does not end', async () => {
    const bucket = await server.bucket();
    await server.put(bucket, 'in/a.jsonl', 'one\n');
    const input = await inputIn(bucket, 'in/a.jsonl');
    const busy: Step = ({ response }) => void response.writeHead(503).end('<Error><Code>SlowDown</Code></Error>');
    const front = await server.front(busy, busy);
    const storage = createJobStorage({ s3: server.client(front), bucket, retry: RETRY });
    expect(Buffer.from(await storage.readRange(input, { start: 0, end: 3 })).toString()).toBe('one');
    const down = await server.front(busy, busy);
    const hasty = createJobStorage({ s3: server.client(down), bucket, retry: { ...RETRY, attempts: 2 } });
    await expect(hasty.readRange(input, { start: 0, end: 3 })).rejects.toThrow(
      /a\.jsonl: expected an answer, got SlowDown/,
    );
  });
});
