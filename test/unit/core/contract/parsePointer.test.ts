import { describe, expect, it } from '@jest/globals';
import { failure } from '../../../../lambda/core/failure.ts';
import { POINTER_ATTRIBUTES, parsePointer, pointerBody } from '../../../../lambda/core/pointer.ts';

const CLASS = 'software.amazon.payloadoffloading.PayloadS3Pointer';
const LOCATION = { s3BucketName: 'b', s3Key: 'k' };

describe('parsing a pointer', () => {
  it.each([
    ['a request', { inputs: [] }],
    ['a packed message', [{ inputs: [] }]],
    ['an empty array', []],
    ['a class of another kind', ['software.amazon.payloadoffloading.Other', LOCATION]],
    ['the class alone, in no array', CLASS],
    ['null', null],
  ])('leaves %s to others', (_, body) => {
    expect(parsePointer(body)).toBeUndefined();
  });

  it.each([
    ['a null location', [CLASS, null], 'body[1]: expected {"s3BucketName": …, "s3Key": …} and no more, got null'],
    [
      'a list of locations',
      [CLASS, [LOCATION]],
      'body[1]: expected {"s3BucketName": …, "s3Key": …} and no more, got an array of 1',
    ],
    [
      'a key that nobody knows',
      [CLASS, { ...LOCATION, versionId: '1' }],
      'body[1]: expected only the keys s3BucketName, s3Key, got "versionId"',
    ],
    [
      'a null bucket',
      [CLASS, { ...LOCATION, s3BucketName: null }],
      "body[1].s3BucketName: expected a bucket's name, got null",
    ],
    [
      'an empty bucket',
      [CLASS, { ...LOCATION, s3BucketName: '' }],
      'body[1].s3BucketName: expected a bucket\'s name, got ""',
    ],
    [
      'an empty key',
      [CLASS, { ...LOCATION, s3Key: '' }],
      expect.stringMatching(/^body\[1\]\.s3Key: .*, got ""; see docs\/message-format\.md$/),
    ],
    [
      'a key that climbs out of the bucket',
      [CLASS, { ...LOCATION, s3Key: '../other/k' }],
      expect.stringMatching(
        /^body\[1\]\.s3Key: .* no '\.\.' in its path, got "\.\.\/other\/k"; see docs\/message-format\.md$/,
      ),
    ],
    [
      'a key of more than 1024 bytes',
      [CLASS, { ...LOCATION, s3Key: `${'ä'.repeat(512)}k` }],
      expect.stringContaining('1024 bytes'),
    ],
  ])('refuses %s, and names the field', (_, body, message) => {
    const sentence = typeof message === 'string' ? `${message}; see docs/message-format.md` : message;
    expect(parsePointer(body)).toEqual({ ...failure('INVALID_POINTER', ''), message: sentence });
  });

  it.each(['a..b/..c', '/', 'ä'.repeat(512)])('accepts the key %s', (key) => {
    const pointer = { bucket: 'b', key };
    expect(parsePointer(JSON.parse(pointerBody(pointer)))).toEqual(pointer);
  });

  it('knows both attributes that say the size, the current one first', () => {
    expect(POINTER_ATTRIBUTES).toEqual(['ExtendedPayloadSize', 'SQSLargePayloadSize']);
  });
});
