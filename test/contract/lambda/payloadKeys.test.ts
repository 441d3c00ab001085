import { describe, expect, it } from '@jest/globals';
import { pointerBody } from '../../../lambda/core/record.ts';
import { createHandler } from '../../../lambda/hosts/createHandler.ts';
import { useS3Server, useSqsServer } from '../../helpers/awsServers.ts';
import { composed, invoke, lookupRequest, recordingTelemetry, sqsRecord } from '../../helpers/handler.ts';

const sqs = useSqsServer();
const s3 = useS3Server();

/** The real handler with a bucket for payloads and results, and the requests that reach S3. */
async function handlerWith(variables: Readonly<Record<string, string>>) {
  const bucket = await s3.bucket();
  const front = await s3.front();
  const where = { sqs: sqs.client(), requestQueueUrl: sqs.queue(), resultQueueUrl: sqs.queue() };
  const composition = await composed(where, recordingTelemetry(), {
    variables: { BATCHSCORE_PAYLOAD_BUCKET: bucket, BATCHSCORE_RESULT_BUCKET: bucket, ...variables },
    s3: s3.client(front),
  });
  return {
    bucket,
    handler: createHandler(composition),
    reads: () => front.requests.filter(({ method }) => method === 'GET').map(({ path }) => path.split('?')[0]),
    /** The results on the queue under their message IDs. */
    async results() {
      const messages = await sqs.drain(where.resultQueueUrl);
      return new Map(messages.map((m) => [m.MessageAttributes?.messageId?.StringValue, JSON.parse(m.Body ?? '')]));
    },
  };
}

describe('a message that points into the payload bucket', () => {
  it.each([
    ['in a bucket of its own', '', 'fraud/requests/1'],
    ['in a bucket that is shared', 'fraud/', 'requests/1'],
  ])('is scored from requests/, and answered with an error from anywhere else, %s', async (_, prefix, others) => {
    const { handler, bucket, results, reads } = await handlerWith({ BATCHSCORE_PAYLOAD_PREFIX: prefix });
    const own = `${prefix}requests/own`;
    const foreign = await s3.bucket();
    const hostile = [
      { bucket, key: `${prefix}results/1` },
      { bucket, key: `${prefix}requests/../results/1` },
      { bucket, key: `${prefix}requests/..` },
      { bucket, key: `${prefix}requests` },
      { bucket, key: 'secret' },
      { bucket, key: others },
      { bucket: foreign, key: own },
    ];
    for (const { bucket: where, key } of [{ bucket, key: own }, ...hostile]) {
      // What no client can put under such a key lies at none.
      if (!key.includes('..')) await s3.put(where, key, JSON.stringify(lookupRequest(1)));
    }
    const good = sqsRecord(JSON.parse(pointerBody({ bucket, key: own })));
    const bad = hostile.map((pointer) => sqsRecord(JSON.parse(pointerBody(pointer))));

    expect(await invoke(handler, [...bad, good])).toEqual({ batchItemFailures: [] });

    const answers = await results();
    expect(answers.get(good.messageId)).toMatchObject({ model_name: 'lookup', outputs: [{}] });
    expect(bad.map(({ messageId }) => answers.get(messageId))).toEqual(
      hostile.map(() =>
        expect.objectContaining({ code: 'INVALID_POINTER', error: expect.stringMatching(/expected .*, got /) }),
      ),
    );
    expect(reads()).toEqual([`/${bucket}/${own}`]);
  });
});

describe('results in a bucket that is shared', () => {
  it('lie under the prefix', async () => {
    const { handler, bucket } = await handlerWith({
      BATCHSCORE_RESULTS: 'bucket',
      BATCHSCORE_RESULT_PREFIX: 'lake/fraud/',
    });
    await invoke(handler, [sqsRecord(lookupRequest(1))]);
    expect(await s3.keys(bucket)).toEqual([expect.stringMatching(/^lake\/fraud\/results\/shard=.*\.ndjson$/)]);
  });
});
