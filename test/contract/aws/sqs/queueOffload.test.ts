import { describe, expect, it } from '@jest/globals';
import { createPayloads, type PayloadsOptions } from '../../../../lambda/aws/payloads.ts';
import { createQueueWriter } from '../../../../lambda/aws/resultQueue.ts';
import { parsePointer, type Result } from '../../../../lambda/core/record.ts';
import { interceptSends, useS3Server, useSqsServer } from '../../../helpers/awsServers.ts';
import { refusesXml } from '../../../helpers/frontServer.ts';

const server = useSqsServer();
const s3Server = useS3Server();
const NEVER = new AbortController().signal;
const WRITTEN = { written: true };
const MIB = 1_048_576;
const LARGE_BODY = JSON.stringify('€'.repeat(MIB / 3));

function result(messageId: string, body = JSON.stringify({ message_id: messageId }), group?: string): Result {
  return { messageId, body, messageGroupId: group };
}

function payloadsIn(bucket: string, options: Partial<PayloadsOptions> = {}) {
  return createPayloads({ s3: s3Server.client(), bucket, maxBytes: 1, retry: { random: () => 0 }, ...options });
}

describe('a result over 1 MiB', () => {
  it('goes to the payload bucket, and the message points to it', async () => {
    const bucket = await s3Server.bucket();
    const queueUrl = server.queue();
    const writer = createQueueWriter({ sqs: server.client(), queueUrl, payloads: payloadsIn(bucket) });

    expect(await writer.write([result('a'), result('large', LARGE_BODY)], NEVER)).toEqual([WRITTEN, WRITTEN]);

    const byId = new Map((await server.drain(queueUrl)).map((m) => [m.MessageAttributes?.messageId?.StringValue, m]));
    const [key = ''] = await s3Server.keys(bucket);
    const { Body, MessageAttributes } = byId.get('large') ?? {};
    expect(parsePointer(JSON.parse(Body ?? ''))).toEqual({ bucket, key });
    expect(MessageAttributes).toMatchObject({
      messageId: { DataType: 'String', StringValue: 'large' },
      ExtendedPayloadSize: { DataType: 'Number', StringValue: String(Buffer.byteLength(LARGE_BODY)) },
    });
    expect((await s3Server.text(bucket, key)) === LARGE_BODY).toBe(true);
    expect(Object.keys(byId.get('a')?.MessageAttributes ?? {})).toEqual(['messageId']);
  });

  it('leaves the bucket alone when its message is sent again', async () => {
    const bucket = await s3Server.bucket();
    const sqs = server.client();
    let sends = 0;
    interceptSends(sqs, async (_, reach) => (++sends < 3 ? {} : reach()));
    const payloads = payloadsIn(bucket);
    const writer = createQueueWriter({ sqs, queueUrl: server.queue(), payloads, retry: { random: () => 0 } });

    expect(await writer.write([result('large', LARGE_BODY)], NEVER)).toEqual([WRITTEN]);

    expect(sends).toBe(3);
    expect(await s3Server.keys(bucket)).toHaveLength(1);
  });

  it('stays in its group on a FIFO queue', async () => {
    const queueUrl = server.fifoQueue();
    const payloads = payloadsIn(await s3Server.bucket());
    const writer = createQueueWriter({ sqs: server.client(), queueUrl, payloads });

    await writer.write([result('large', LARGE_BODY, 'orders')], NEVER);

    expect((await server.drain(queueUrl)).map(({ Attributes }) => Attributes?.MessageGroupId)).toEqual(['orders']);
  });

  it('is a failure, and no error answer, when the payload bucket does not take it', async () => {
    const queueUrl = server.queue();
    const front = await s3Server.front(refusesXml(403, 'AccessDenied'));
    const payloads = payloadsIn('any', { s3: s3Server.client(front) });
    const writer = createQueueWriter({ sqs: server.client(), queueUrl, payloads });

    const verdicts = await writer.write([result('large', LARGE_BODY), result('a')], NEVER);

    expect(verdicts).toMatchObject([
      { code: 'WRITE_FAILED', message: expect.stringMatching(/^payload bucket: AccessDenied/) },
      WRITTEN,
    ]);
    expect(await server.drain(queueUrl)).toHaveLength(1);
  });

  it('neither keeps the others waiting for its upload nor waits for them', async () => {
    const uploadBegan = Promise.withResolvers<void>();
    const othersAreThere = Promise.withResolvers<void>();
    const front = await s3Server.front(async ({ response }) => {
      uploadBegan.resolve();
      await othersAreThere.promise;
      response.writeHead(200).end();
    });
    const sqs = server.client();
    const sent: number[] = [];
    interceptSends(sqs, async (entries, reach) => {
      await uploadBegan.promise;
      const answer = await reach();
      sent.push(entries.length);
      othersAreThere.resolve();
      return answer;
    });
    const payloads = payloadsIn('any', { s3: s3Server.client(front) });

    const verdicts = await createQueueWriter({ sqs, queueUrl: server.queue(), payloads }).write(
      [result('large', LARGE_BODY), result('a'), result('b')],
      NEVER,
    );

    expect(verdicts).toEqual([WRITTEN, WRITTEN, WRITTEN]);
    expect(sent).toEqual([2, 1]);
  });
});
