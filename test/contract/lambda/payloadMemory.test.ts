import { Readable } from 'node:stream';
import type { GetObjectCommandOutput, S3Client } from '@aws-sdk/client-s3';
import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { CLIENT_PATIENCE } from '../../../lambda/aws/awsClients.ts';
import type { MicroBatchReport } from '../../../lambda/core/observer.ts';
import { createHandler, type ScoringHandler } from '../../../lambda/hosts/createHandler.ts';
import { composed, invoke, lookupRequest, recordingTelemetry } from '../../helpers/handler.ts';
import { useS3Server } from '../../helpers/s3Server.ts';
import { sqsRecord } from '../../helpers/sqsEvents.ts';
import { useSqsServer } from '../../helpers/sqsServer.ts';

const sqs = useSqsServer();
const s3 = useS3Server();
const MIB = 1024 * 1024;
const LIMIT_BYTES = 16 * MIB;
const PAYLOAD_BYTES = 6 * MIB;
const PAYLOAD = JSON.stringify(lookupRequest(1)).padEnd(PAYLOAD_BYTES);

/** A record whose payload lies in the bucket, and says that it is next to nothing. */
function pointingTo(s3BucketName: string, s3Key: string): SQSRecord {
  return sqsRecord(['software.amazon.payloadoffloading.PayloadS3Pointer', { s3BucketName, s3Key }], {
    messageAttributes: { ExtendedPayloadSize: { stringValue: '1', dataType: 'Number' } },
  });
}

/** Tells of every payload whose first byte is read. */
function watchReads(client: S3Client, onRead: () => void): void {
  client.middlewareStack.add(
    (next) => async (args) => {
      const answer = await next(args);
      const output = answer.output as GetObjectCommandOutput;
      if (output.Body instanceof Readable) output.Body = watched(output.Body, onRead) as never;
      return answer;
    },
    { step: 'initialize' },
  );
}

function watched(body: Readable, onRead: () => void): Readable {
  return Readable.from(
    (async function* () {
      onRead();
      yield* body;
    })(),
  );
}

interface Watched {
  readonly handler: ScoringHandler;
  /** At each payload whose first byte was read: how many were read and not scored yet. */
  readonly heldAtReads: readonly number[];
}

async function watchedHandler(payloadBucket: string): Promise<Watched> {
  const heldAtReads: number[] = [];
  let read = 0;
  let scored = 0;
  // A payload that waits for room on a busy machine is not to be read again: each read is counted.
  const payloads = s3.client(undefined, CLIENT_PATIENCE);
  watchReads(payloads, () => {
    read += 1;
    heldAtReads.push(read - scored);
  });
  const telemetry = recordingTelemetry();
  const microBatch = ({ requests }: MicroBatchReport) => {
    scored += requests;
  };
  const where = { sqs: sqs.client(), requestQueueUrl: sqs.queue(), resultQueueUrl: sqs.queue() };
  const composition = await composed(
    where,
    { ...telemetry, observer: { ...telemetry.observer, microBatch } },
    { variables: { BATCHSCORE_PAYLOAD_BUCKET: payloadBucket }, s3: payloads },
  );
  return { handler: createHandler(composition), heldAtReads };
}

describe('payloads that are larger together than 16 MiB', () => {
  it.each([
    ['on a standard queue', (record: SQSRecord) => record],
    [
      'on a FIFO queue',
      (record: SQSRecord) => ({
        ...record,
        eventSourceARN: `${record.eventSourceARN}.fifo`,
        attributes: { ...record.attributes, MessageGroupId: 'group' },
      }),
    ],
  ])('are never read all at once, whatever their senders say of their size: %s', async (_, onQueue) => {
    const bucket = await s3.bucket();
    await s3.put(bucket, 'requests/padded', PAYLOAD);
    const { handler, heldAtReads } = await watchedHandler(bucket);
    const records = Array.from({ length: 10 }, () => onQueue(pointingTo(bucket, 'requests/padded')));

    expect(await invoke(handler, records)).toEqual({ batchItemFailures: [] });

    expect(heldAtReads).toHaveLength(records.length);
    // The room of what was scored is free before its micro-batch, as large at most, is reported.
    expect(Math.max(...heldAtReads) * PAYLOAD_BYTES).toBeLessThanOrEqual(2 * LIMIT_BYTES);
  });
});
