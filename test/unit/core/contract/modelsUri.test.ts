import { describe, expect, it } from '@jest/globals';
import { parseModelsUri, parseS3Prefix } from '../../../../lambda/core/places.ts';

const DIGEST = 'a'.repeat(64);

describe('the URI of published models', () => {
  it.each([
    [`s3://bucket/team/models/${DIGEST}`, { bucket: 'bucket', folder: `team/models/${DIGEST}`, digest: DIGEST }],
    [`s3://my.bucket-1/${DIGEST}/`, { bucket: 'my.bucket-1', folder: DIGEST, digest: DIGEST }],
  ])('names the bucket, the folder and the digest: %s', (uri, expected) => {
    expect(parseModelsUri(uri)).toEqual(expected);
  });

  it.each(['s3://bucket/models', `s3://bucket/${DIGEST}/models`, `https://bucket/${DIGEST}`, `s3:///${DIGEST}`])(
    'has all three: %s has not',
    (uri) => {
      expect(parseModelsUri(uri)).toBeUndefined();
    },
  );
});

describe('a place in S3', () => {
  it.each([
    ['s3://bucket', ''],
    ['s3://bucket/', ''],
    ['s3://bucket/a/b=c+d_e.f-g/', 'a/b=c+d_e.f-g'],
  ])('may have a prefix: %s', (uri, prefix) => {
    expect(parseS3Prefix(uri)).toEqual({ bucket: 'bucket', prefix });
  });

  it.each(['*', '$', '..', 'a//b', 'ä'])(
    'has no prefix that leads elsewhere or means more in a permission: %s',
    (prefix) => {
      expect(parseS3Prefix(`s3://bucket/${prefix}/models`)).toBeUndefined();
    },
  );

  it.each(['s3://ab', 's3://Bucket', 'bucket'])('has a bucket: %s has not', (uri) => {
    expect(parseS3Prefix(uri)).toBeUndefined();
  });
});
