import { beforeAll, describe, expect, it } from '@jest/globals';
import { useS3Server } from '../helpers/awsServers.ts';
import { HOSTS, type Host, useHosts } from '../helpers/hosts.ts';
import { identityModel } from '../helpers/onnxModels.ts';

const hosts = useHosts();
const s3 = useS3Server();
const BUCKET = 'payloads';
const ENVIRONMENT = {
  BATCHSCORE_MAX_REQUEST_ROWS: '4',
  BATCHSCORE_MAX_REQUESTS_PER_MESSAGE: '3',
  BATCHSCORE_MAX_ANSWER_CHARACTERS: '400',
  BATCHSCORE_MAX_PAYLOAD_BYTES: '1000',
  BATCHSCORE_PAYLOAD_BUCKET: BUCKET,
};

const rows = (count: number, id = '') => ({
  id,
  inputs: [{ name: 'x', datatype: 'FP32', shape: [count, 1], data: Array(count).fill(1) }],
});
const pointer = (s3Key: string) => [
  'software.amazon.payloadoffloading.PayloadS3Pointer',
  { s3BucketName: BUCKET, s3Key },
];
const inLevels = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
const padded = (fields: object) =>
  JSON.stringify({ ...rows(1), ...fields, parameters: { padding: ' '.repeat(70_000) } });

/** Of each row of the table: a message beyond the limit, and its code. */
const BEYOND: Readonly<Record<string, readonly [body: unknown, code: string]>> = {
  'rows in a request': [rows(5), 'TOO_MANY_ROWS'],
  'requests in a packed message': [Array(4).fill(rows(1)), 'TOO_MANY_REQUESTS'],
  'bytes of a body in the payload bucket': [pointer('requests/large'), 'PAYLOAD_TOO_LARGE'],
  'characters of an answer': [rows(1, 'an id that is echoed '.repeat(30)), 'RESULT_TOO_LARGE'],
  'arrays and objects in a body over 64 KiB': [padded({ inputs: Array(200_001).fill([]) }), 'INVALID_REQUEST'],
  'levels of arrays and objects': [padded({ inputs: JSON.parse(inLevels(101)) }), 'INVALID_REQUEST'],
  'keys in an object': [
    padded({ inputs: Object.fromEntries(Array.from({ length: 10_001 }, (_, key) => [`k${key}`, key])) }),
    'INVALID_REQUEST',
  ],
};

describe.each(HOSTS)('beyond a limit, %s refuses a message with one error, and scores those within:', (name) => {
  let host: Host;
  beforeAll(async () => {
    await s3.bucket(BUCKET).catch(() => {});
    await s3.put(BUCKET, 'requests/large', JSON.stringify(rows(1)).padEnd(1_001));
    await s3.put(BUCKET, 'requests/fits', JSON.stringify(rows(1)).padEnd(1_000));
    host = await hosts.start(name, {
      models: { 'same/1/model.onnx': identityModel('FP32', ['batch', 1]) },
      environment: { ...ENVIRONMENT, AWS_ENDPOINT_URL_S3: s3.endpoint() },
    });
  });

  describe.each(Object.entries(BEYOND))('Limits: %s', (_, [body, code]) => {
    it(`${code}`, async () => {
      const ids = host.send([rows(4), body, pointer('requests/fits')]);
      const [first, beyond, last] = await host.answers(ids);

      expect(beyond).toMatchObject({ code, error: expect.stringMatching(/expected .*, got /) });
      expect([first?.outputs?.[0]?.shape, last?.outputs?.[0]?.shape]).toEqual([
        [4, 1],
        [1, 1],
      ]);
      await host.become('deleted', ids);
    });
  });
});
