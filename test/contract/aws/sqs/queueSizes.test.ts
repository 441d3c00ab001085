import { describe, expect, it } from '@jest/globals';
import { createPayloads } from '../../../../lambda/aws/payloads.ts';
import { createQueueWriter } from '../../../../lambda/aws/resultQueue.ts';
import type { RetryOptions } from '../../../../lambda/aws/sendBatches.ts';
import { parsePointer, type Result } from '../../../../lambda/core/record.ts';
import { interceptSends, useS3Server, useSqsServer } from '../../../helpers/awsServers.ts';
import { answersJson, type Exchange, type Step } from '../../../helpers/frontServer.ts';

const server = useSqsServer();
const s3Server = useS3Server();
const NEVER = new AbortController().signal;
const WRITTEN = { written: true };
const AT_ONCE: RetryOptions = { random: () => 0 };
const KIB = 1024;
const QUEUE_BYTES = 256 * KIB;

function result(messageId: string, bytes = 10): Result {
  return { messageId, body: JSON.stringify(messageId.padEnd(bytes - 2, '.')), messageGroupId: undefined };
}

async function payloadsOfItsOwn() {
  const bucket = await s3Server.bucket();
  return { bucket, payloads: createPayloads({ s3: s3Server.client(), bucket, maxBytes: 1, retry: AT_ONCE }) };
}

/** A client of the server, and the number of entries in each of its batch requests. */
function countingClient() {
  const sqs = server.client();
  const sends: number[] = [];
  interceptSends(sqs, (entries, reach) => {
    sends.push(entries.length);
    return reach();
  });
  return { sqs, sends };
}

describe('a queue that takes 256 KiB', () => {
  const smallQueue = () => server.queue({ MaximumMessageSize: String(QUEUE_BYTES) });

  it('gets a pointer in place of a result of 400 KB, and its neighbours as they are', async () => {
    const queueUrl = smallQueue();
    const { bucket, payloads } = await payloadsOfItsOwn();
    const writer = createQueueWriter({ sqs: server.client(), queueUrl, payloads });

    const large = result('large', 400_000);
    expect(await writer.write([result('a'), large, result('b')], NEVER)).toEqual([WRITTEN, WRITTEN, WRITTEN]);

    const messages = await server.drain(queueUrl);
    const byId = new Map(messages.map((one) => [one.MessageAttributes?.messageId?.StringValue, one.Body ?? '']));
    expect([...byId.keys()].toSorted()).toEqual(['a', 'b', 'large']);
    const [key = ''] = await s3Server.keys(bucket);
    expect(parsePointer(JSON.parse(byId.get('large') ?? ''))).toEqual({ bucket, key });
    expect((await s3Server.text(bucket, key)) === large.body).toBe(true);
  });

  it('is not offered a second result that is too large for it', async () => {
    const { sqs, sends } = countingClient();
    const { payloads } = await payloadsOfItsOwn();
    const writer = createQueueWriter({ sqs, queueUrl: smallQueue(), payloads });

    await writer.write([result('first', 400_000)], NEVER);
    await writer.write([result('second', 300_000), result('small')], NEVER);

    expect(sends).toEqual([1, 1, 1, 1]);
  });

  it('still gets what it takes, to the byte', async () => {
    const { bucket, payloads } = await payloadsOfItsOwn();
    const writer = createQueueWriter({ sqs: server.client(), queueUrl: smallQueue(), payloads });
    const attributeBytes = 'messageId'.length + 'String'.length + 'exact'.length;

    await writer.write([result('large', 400_000)], NEVER);
    expect(await writer.write([result('exact', QUEUE_BYTES - attributeBytes)], NEVER)).toEqual([WRITTEN]);

    expect(await s3Server.keys(bucket)).toHaveLength(1);
  });

  it('refuses the result for good where there is no payload bucket, and says what it takes', async () => {
    const writer = createQueueWriter({ sqs: server.client(), queueUrl: smallQueue() });

    const verdicts = await writer.write([result('a'), result('large', 400_000)], NEVER);

    expect(verdicts).toEqual([
      WRITTEN,
      {
        failed: true,
        code: 'RESULT_TOO_LARGE',
        message: expect.stringMatching(/^expected a result of at most 262144 bytes, .*, got 400020; .*payload bucket$/),
      },
    ]);
  });
});

describe('a queue that is not true to its word', () => {
  it('gets a pointer in place of what it refuses as too large, whatever size it says that it takes', async () => {
    const claims = 'Message must be shorter than 1048576 bytes.';
    const Failed = [{ Id: '0', Code: 'InvalidParameterValue', Message: claims, SenderFault: true }];
    const front = await server.front(answersJson(200, { Successful: [], Failed }));
    const { bucket, payloads } = await payloadsOfItsOwn();
    const writer = createQueueWriter({ sqs: server.client(front), queueUrl: server.queue(), payloads });

    expect(await writer.write([result('a', 1_000)], NEVER)).toEqual([WRITTEN]);

    expect(await s3Server.keys(bucket)).toHaveLength(1);
  });
});

describe('an SQS server that takes less in a batch request', () => {
  const MAX_BATCH_BYTES = 100 * KIB;

  /** Refuses what is too long as a whole. */
  const refusesLong: Step = async (exchange) => {
    const bytes = bodiesIn(exchange).reduce((sum, body) => sum + Buffer.byteLength(body), 0);
    if (bytes > MAX_BATCH_BYTES) {
      answersJson(400, {
        __type: 'com.amazonaws.sqs#BatchRequestTooLong',
        message: `Batch requests cannot be longer than ${MAX_BATCH_BYTES} bytes. You have sent ${bytes} bytes.`,
      })(exchange);
      return;
    }
    const { status, headers, body } = await exchange.reach();
    exchange.response.writeHead(status, headers).end(body);
  };

  function bodiesIn({ body }: Exchange): string[] {
    const { Entries }: { Entries: { MessageBody: string }[] } = JSON.parse(body);
    return Entries.map(({ MessageBody }) => MessageBody);
  }

  it('gets smaller ones, and a pointer in place of what is too long alone', async () => {
    const front = await server.front(...new Array<Step>(20).fill(refusesLong));
    const queueUrl = server.queue();
    const { bucket, payloads } = await payloadsOfItsOwn();
    const writer = createQueueWriter({ sqs: server.client(front), queueUrl, payloads, retry: AT_ONCE });
    const results = Array.from({ length: 6 }, (_, index) => result(`m${index}`, 40_000));

    expect(await writer.write([...results, result('large', 200_000)], NEVER)).toEqual(Array(7).fill(WRITTEN));
    const before = front.requests.length;
    expect(await writer.write(results, NEVER)).toEqual(Array(6).fill(WRITTEN));

    expect(front.requests.slice(before).map((one) => bodiesIn(one).length)).toEqual([2, 2, 2]);
    expect(await s3Server.keys(bucket)).toHaveLength(1);
    expect(await server.drain(queueUrl)).toHaveLength(13);
  });
});
