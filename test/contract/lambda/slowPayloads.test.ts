import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { createHandler } from '../../../lambda/hosts/createHandler.ts';
import type { Step } from '../../helpers/frontServer.ts';
import { composed, failuresOf, invoke, lookupRequest, recordingTelemetry } from '../../helpers/handler.ts';
import { useS3Server } from '../../helpers/s3Server.ts';
import { sqsRecord } from '../../helpers/sqsEvents.ts';
import { useSqsServer } from '../../helpers/sqsServer.ts';

const sqs = useSqsServer();
const s3 = useS3Server();
const MIB = 1024 * 1024;
const BODY = JSON.stringify(lookupRequest(1));
/** Far longer than a read may take; what goes on behind a slow object is done long before. */
const REMAINING_MS = 55_000;

function pointerTo(s3BucketName: string, s3Key: string): SQSRecord {
  return sqsRecord(['software.amazon.payloadoffloading.PayloadS3Pointer', { s3BucketName, s3Key }]);
}

/** S3 that gives one byte a second of what has `slow` in its key, and all else as it is, once such a byte has come. */
function trickling(announcedBytes: number): Step {
  const begun = Promise.withResolvers<void>();
  return async ({ path, response, reach }) => {
    if (!path.includes('/slow-')) {
      await begun.promise;
      const { status, headers, body } = await reach();
      response.writeHead(status, headers).end(body);
      return;
    }
    response.writeHead(200, { 'content-length': String(announcedBytes) });
    const drip = setInterval(() => response.write(' ', () => begun.resolve()), 1_000);
    response.on('close', () => clearInterval(drip));
  };
}

describe('payloads that come one byte a second', () => {
  it.each([
    ['that take all places of those that are read', { slow: 20, quick: 20, announcedBytes: BODY.length, reads: 1 }],
    ['of which one takes all the memory for payloads', { slow: 1, quick: 5, announcedBytes: 16 * MIB, reads: 2 }],
  ])('are handed back, and those behind them are scored: %s', async (_, { slow, quick, announcedBytes, reads }) => {
    const bucket = await s3.bucket();
    await s3.put(bucket, 'requests/quick', BODY);
    const { endpoint, requests } = await s3.front(...Array<Step>(100).fill(trickling(announcedBytes)));
    const where = { sqs: sqs.client(), requestQueueUrl: sqs.queue(), resultQueueUrl: sqs.queue() };
    const composition = await composed(where, recordingTelemetry(), {
      variables: { BATCHSCORE_PAYLOAD_BUCKET: bucket, BATCHSCORE_MAX_PAYLOAD_BYTES: String(32 * MIB) },
      s3: s3.client({ endpoint }),
    });
    const handler = createHandler(composition);
    const held = Array.from({ length: slow }, (_, index) => pointerTo(bucket, `requests/slow-${index}`));
    const behind = Array.from({ length: quick }, () => pointerTo(bucket, 'requests/quick'));

    expect(await invoke(handler, [...held, ...behind], REMAINING_MS)).toEqual(failuresOf(...held));

    const results = (await sqs.drain(where.resultQueueUrl)).map(({ Body = '' }) => JSON.parse(Body).message_id);
    expect(results.toSorted()).toEqual(behind.map(({ messageId }) => messageId).toSorted());
    // While others wait for a place it is not read again.
    expect(requests.filter(({ path }) => path.includes('/slow-0'))).toHaveLength(reads);
  });
});
