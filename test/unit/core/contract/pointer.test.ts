import { describe, expect, it } from '@jest/globals';
import { failure } from '../../../../lambda/core/failure.ts';
import { type PayloadReader, parsePointer, pointerBody } from '../../../../lambda/core/record.ts';
import { lineModel, lineRequest, repositoryOf } from '../../../helpers/scoring.ts';
import { accepted, decode, refusal, sentence } from '../decode/refusals.ts';

const MODELS = repositoryOf(lineModel());
const CLASS = 'software.amazon.payloadoffloading.PayloadS3Pointer';
const LOCATION = { s3BucketName: 'payloads', s3Key: 'a/b' };

/** A bucket that holds these objects by their key. */
function bucketOf(objects: Readonly<Record<string, unknown>>): PayloadReader {
  return {
    async read({ bucket, key }) {
      if (bucket !== 'payloads') return failure('INVALID_POINTER', 'another bucket');
      const object = objects[key];
      if (object === undefined) return failure('PAYLOAD_NOT_FOUND', 'no such object');
      return typeof object === 'string' ? object : JSON.stringify(object);
    },
  };
}

describe('a pointer', () => {
  it.each([CLASS, 'com.amazon.sqs.javamessaging.MessageS3Pointer'])('of the class %s is followed', async (name) => {
    const payloads = bucketOf({ 'a/b': lineRequest([1, 2], { id: 'large' }) });
    const request = await accepted([name, LOCATION], MODELS, payloads);
    expect([request.id, request.rows]).toEqual(['large', 2]);
  });

  it('has a key of at most 1024 bytes, as long as it stays in its bucket', () => {
    const keyOf = (key: string) => parsePointer(JSON.parse(pointerBody({ bucket: 'b', key })));
    for (const key of ['a..b/..c', '/', 'ä'.repeat(512)]) expect(keyOf(key)).toEqual({ bucket: 'b', key });
    expect(keyOf(`${'ä'.repeat(512)}k`)).toMatchObject({ code: 'INVALID_POINTER' });
  });

  it('is followed once: an object that points on is refused', async () => {
    const body = await decode([CLASS, LOCATION], MODELS, bucketOf({ 'a/b': [CLASS, LOCATION] }));
    expect(body).toMatchObject({ failure: { code: 'INVALID_POINTER' } });
  });

  it.each([
    ['no location', [CLASS], 'body[1]', 'nothing'],
    ['more than a location', [CLASS, LOCATION, 1], 'body[1]', 'an object'],
    ['no bucket', [CLASS, { s3Key: 'k' }], 'body[1].s3BucketName', 'nothing'],
    ['an empty key', [CLASS, { ...LOCATION, s3Key: '' }], 'body[1].s3Key', '""'],
    ['a key that climbs out', [CLASS, { ...LOCATION, s3Key: '../k' }], 'body[1].s3Key', '"../k"'],
    ['a key that no URL can name', [CLASS, { ...LOCATION, s3Key: 'k\ud800' }], 'body[1].s3Key', '"k\\ud800"'],
    ['a key that nobody knows', [CLASS, { ...LOCATION, versionId: '1' }], 'body[1]', '"versionId"'],
  ])('is refused with %s', async (_, body, path, got) => {
    expect(sentence(await refusal(body, MODELS, bucketOf({})))).toEqual({ code: 'INVALID_POINTER', path, got });
  });

  it('is refused by a deployment without a payload bucket', async () => {
    const failed = await refusal([CLASS, LOCATION], MODELS);
    expect(sentence(failed)).toMatchObject({ code: 'INVALID_POINTER', path: 'body', got: 'a pointer to S3' });
  });
});
