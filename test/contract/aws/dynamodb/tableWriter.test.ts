import { describe, expect, it } from '@jest/globals';
import { createPayloads } from '../../../../lambda/aws/payloads.ts';
import { createTableWriter, type TableWriterOptions } from '../../../../lambda/aws/resultTable.ts';
import { parsePointer } from '../../../../lambda/core/record.ts';

import { useDynamoDbServer, useS3Server } from '../../../helpers/awsServers.ts';
import { answersJson, hangsUp, refusesXml } from '../../../helpers/frontServer.ts';
import { idsOf, NEVER, result, resultOf, results, WRITTEN } from './results.ts';

const server = useDynamoDbServer();
const s3Server = useS3Server();
const NOON = Date.parse('2026-11-21T12:00:00.999Z');
const NOON_SECONDS = Date.parse('2026-11-21T12:00:00Z') / 1000;
const MAX_ITEM_BYTES = 409_600;

/** A writer to a table of its own, and the batch requests that it made. */
async function opened(options: Partial<TableWriterOptions> = {}) {
  const front = await server.front();
  const tableName = await server.table();
  const dynamodb = server.client(front);
  const writer = createTableWriter({ dynamodb, tableName, ttlSeconds: 3600, now: () => NOON, ...options });
  return { writer, items: () => server.items(tableName), calls: () => front.requests.map(idsOf) };
}

describe('the table writer', () => {
  it('puts every result under its message ID, with the second at which it expires', async () => {
    const { writer, items } = await opened();
    const written = results(60);

    const verdicts = await writer.write(written, NEVER);

    expect(verdicts).toEqual(written.map(() => WRITTEN));
    const expiresAt = { N: String(NOON_SECONDS + 3600) };
    const expected = written.map(({ messageId, body }) => [
      messageId,
      { messageId: { S: messageId }, body: { S: body }, expiresAt },
    ]);
    expect(await items()).toEqual(Object.fromEntries(expected));
  });

  it('puts 16 MiB in a batch request as they are sent, escaped in JSON', async () => {
    const taken = answersJson(200, { UnprocessedItems: {} });
    const front = await server.front(taken, taken);
    const writer = createTableWriter({ dynamodb: server.client(front), tableName: 'any', ttlSeconds: 60 });
    const large = Array.from({ length: 25 }, (_, index) => resultOf(MAX_ITEM_BYTES - 1, `m${index + 10}`, '\\"'));

    const verdicts = await writer.write(large, NEVER);

    expect(verdicts).toEqual(large.map(() => WRITTEN));
    expect(front.requests.map((call) => idsOf(call).length).toSorted()).toEqual([20, 5]);
    for (const { body } of front.requests) expect(Buffer.byteLength(body)).toBeLessThanOrEqual(16 * 1024 * 1024);
  });

  it('keeps the last of several results of one message ID, and says that each was written', async () => {
    const { writer, items, calls } = await opened();

    const verdicts = await writer.write([result('a', '1'), result('b', '2'), result('a', '3')], NEVER);

    expect(verdicts).toEqual([WRITTEN, WRITTEN, WRITTEN]);
    expect(calls().flat().toSorted()).toEqual(['a', 'b']);
    expect(await items()).toMatchObject({ a: { body: { S: '3' } }, b: { body: { S: '2' } } });
  });

  it('fails every result of a message ID whose item DynamoDB left', async () => {
    const front = await server.front(answersJson(400, { __type: 'x#ValidationException', message: 'wrong' }));
    const writer = createTableWriter({ dynamodb: server.client(front), tableName: 'any', ttlSeconds: 60 });

    const verdicts = await writer.write([result('a', '1'), result('a', '2')], NEVER);

    expect(verdicts).toMatchObject(Array(2).fill({ message: 'result table: ValidationException: wrong' }));
    expect(front.requests).toHaveLength(1);
  });
});

describe('a result that is too large for an item', () => {
  const exact = resultOf(MAX_ITEM_BYTES, 'exact');
  const large = resultOf(MAX_ITEM_BYTES + 1, 'large');
  const wide = resultOf(MAX_ITEM_BYTES + 18, 'wide', '€');

  it('is refused for good, with the sizes and what to do, and holds up no other', async () => {
    const { writer, items } = await opened();

    const verdicts = await writer.write([result('a'), large, exact, wide], NEVER);

    const refused = (bytes: number) => ({
      code: 'RESULT_TOO_LARGE',
      message: expect.stringMatching(`at most 409600 bytes, .*, got ${bytes}; ask for .*, or deploy a payload bucket`),
    });
    expect(verdicts).toMatchObject([WRITTEN, refused(409_601), WRITTEN, refused(409_618)]);
    expect(Object.keys(await items()).toSorted()).toEqual(['a', 'exact']);
  });

  it('goes to the payload bucket and leaves a pointer', async () => {
    const bucket = await s3Server.bucket();
    const payloads = createPayloads({ s3: s3Server.client(), bucket, maxBytes: 1 });
    const { writer, items } = await opened({ payloads });

    const verdicts = await writer.write([result('a'), large, exact], NEVER);

    expect(verdicts).toEqual([WRITTEN, WRITTEN, WRITTEN]);
    const { large: item } = await items();
    expect(Object.keys(item ?? {}).toSorted()).toEqual(['expiresAt', 'messageId', 'pointer']);
    const [key = ''] = await s3Server.keys(bucket);
    expect(parsePointer(JSON.parse(item?.pointer?.S ?? ''))).toEqual({ bucket, key });
    expect((await s3Server.text(bucket, key)) === large.body).toBe(true);
  });

  it('is a failure that is tried again when the payload bucket does not take it, and holds up no other', async () => {
    const front = await s3Server.front(refusesXml(503, 'SlowDown'), hangsUp);
    const retry = { attempts: 2, random: () => 0 };
    const payloads = createPayloads({ s3: s3Server.client(front), bucket: 'any', maxBytes: 1, retry });
    const { writer, items } = await opened({ payloads });

    const verdicts = await writer.write([large, result('a')], NEVER);

    expect(verdicts).toMatchObject([
      { code: 'WRITE_FAILED', message: expect.stringMatching(/^payload bucket: /) },
      WRITTEN,
    ]);
    expect(Object.keys(await items())).toEqual(['a']);
  });

  it('does not keep the others waiting for its upload', async () => {
    const othersAreThere = Promise.withResolvers<void>();
    const bucketFront = await s3Server.front(async ({ response }) => {
      await othersAreThere.promise;
      response.writeHead(200).end();
    });
    const tableFront = await server.front(async ({ reach, response }) => {
      const { status, headers, body } = await reach();
      response.writeHead(status, headers).end(body, () => othersAreThere.resolve());
    });
    const payloads = createPayloads({ s3: s3Server.client(bucketFront), bucket: 'any', maxBytes: 1 });
    const tableName = await server.table();
    const writer = createTableWriter({ dynamodb: server.client(tableFront), tableName, ttlSeconds: 60, payloads });

    const verdicts = await writer.write([large, result('a')], NEVER);

    expect(verdicts).toEqual([WRITTEN, WRITTEN]);
    expect(tableFront.requests.map(idsOf)).toEqual([['a'], ['large']]);
  });
});
