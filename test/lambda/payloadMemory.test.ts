import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { createHandler, type ScoringHandler } from '../../lambda/createHandler.ts';
import type { FrontServer } from '../helpers/frontServer.ts';
import { useS3Server } from '../helpers/s3Server.ts';
import { sqsRecord } from '../helpers/sqsEvents.ts';
import { interceptSends, useSqsServer } from '../helpers/sqsServer.ts';
import { composed, invoke, lookupRequest, recordingTelemetry } from './setup.ts';

const sqs = useSqsServer();
const s3 = useS3Server();
const MIB = 1024 * 1024;
const LIMIT_BYTES = 16 * MIB;
const PAYLOAD_BYTES = 6 * MIB;
const PAYLOAD = JSON.stringify(lookupRequest(1)).padEnd(PAYLOAD_BYTES);

/** A record whose payload lies in the bucket. */
function pointingTo(s3BucketName: string, s3Key: string): SQSRecord {
  const stringValue = String(PAYLOAD_BYTES);
  return sqsRecord(['software.amazon.payloadoffloading.PayloadS3Pointer', { s3BucketName, s3Key }], {
    messageAttributes: { ExtendedPayloadSize: { stringValue, dataType: 'Number' } },
  });
}

interface Watched {
  readonly handler: ScoringHandler;
  /** For each call that wrote results: the payloads asked for before, less those already answered. */
  readonly heldAtWrites: readonly number[];
}

async function watched(payloadBucket: string, front: FrontServer): Promise<Watched> {
  const heldAtWrites: number[] = [];
  let answered = 0;
  const client = sqs.client();
  interceptSends(client, async (entries, reach) => {
    heldAtWrites.push(front.requests.length - answered);
    answered += entries.length;
    return await reach();
  });
  const where = { sqs: client, requestQueueUrl: sqs.queue(), resultQueueUrl: sqs.queue() };
  const composition = await composed(where, recordingTelemetry(), {
    variables: { BATCHSCORE_PAYLOAD_BUCKET: payloadBucket },
    s3: s3.client(front),
  });
  return { handler: createHandler(composition), heldAtWrites };
}

describe('payloads that are larger together than 16 MiB', () => {
  it('are never held all at once: results are written before more are read', async () => {
    const bucket = await s3.bucket();
    await s3.put(bucket, 'padded', PAYLOAD);
    const front = await s3.front();
    const { handler, heldAtWrites } = await watched(bucket, front);
    const records = Array.from({ length: 6 }, () => pointingTo(bucket, 'padded'));

    expect(await invoke(handler, records)).toEqual({ batchItemFailures: [] });

    expect(front.requests).toHaveLength(records.length);
    // The size of a payload may be known only once it is read: one more than fits may be there.
    expect(Math.max(...heldAtWrites) * PAYLOAD_BYTES).toBeLessThanOrEqual(LIMIT_BYTES + PAYLOAD_BYTES);
  });
});
