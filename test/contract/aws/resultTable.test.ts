import { describe, expect, it } from '@jest/globals';
import { createPayloads } from '../../../lambda/aws/payloads.ts';
import { createTableWriter, type TableWriterOptions } from '../../../lambda/aws/resultTable.ts';
import { parsePointer, type Result } from '../../../lambda/core/record.ts';
import { useDynamoDbServer, useS3Server } from '../../helpers/awsServers.ts';
import { answersJson, type Exchange } from '../../helpers/frontServer.ts';

const server = useDynamoDbServer();
const s3Server = useS3Server();
const NEVER = new AbortController().signal;
const WRITTEN = { written: true };
const NOON = Date.parse('2026-11-21T12:00:00.999Z');
const NOON_SECONDS = Date.parse('2026-11-21T12:00:00Z') / 1000;
const MAX_ITEM_BYTES = 409_600;
const EXPIRES_AT_BYTES = 'expiresAt'.length + 21;

function result(messageId: string, body: string): Result {
  return { messageId, body, messageGroupId: undefined };
}

/** A result whose item takes exactly `bytes`, by the longest that a number can be. */
function resultOf(bytes: number, messageId: string, character = 'x'): Result {
  const others = 'messageId'.length + messageId.length + 'body'.length + EXPIRES_AT_BYTES + '""'.length;
  const filler = (bytes - others) / Buffer.byteLength(character);
  return result(messageId, `"${character.repeat(filler)}"`);
}

/** The message IDs of one batch request. */
function idsOf({ body }: Exchange): string[] {
  const { RequestItems } = JSON.parse(body) as {
    RequestItems: Record<string, { PutRequest: { Item: { messageId: { S: string } } } }[]>;
  };
  return Object.values(RequestItems)
    .flat()
    .map(({ PutRequest }) => PutRequest.Item.messageId.S);
}

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

    expect(await writer.write([result('a', '1'), result('b', '[2]')], NEVER)).toEqual([WRITTEN, WRITTEN]);

    const expiresAt = { N: String(NOON_SECONDS + 3600) };
    expect(await items()).toEqual({
      a: { messageId: { S: 'a' }, body: { S: '1' }, expiresAt },
      b: { messageId: { S: 'b' }, body: { S: '[2]' }, expiresAt },
    });
  });

  it('puts 16 MiB in a batch request as they are sent, escaped in JSON', async () => {
    const taken = answersJson(200, { UnprocessedItems: {} });
    const front = await server.front(taken, taken);
    const writer = createTableWriter({ dynamodb: server.client(front), tableName: 'any', ttlSeconds: 60 });
    const large = Array.from({ length: 25 }, (_, index) => resultOf(MAX_ITEM_BYTES - 1, `m${index + 10}`, '\\"'));

    expect(await writer.write(large, NEVER)).toEqual(large.map(() => WRITTEN));

    expect(front.requests.map((call) => idsOf(call).length).toSorted()).toEqual([20, 5]);
    for (const { body } of front.requests) expect(Buffer.byteLength(body)).toBeLessThanOrEqual(16 * 1024 * 1024);
  });

  it('keeps the last of several results of one message ID, and gives each the same status', async () => {
    const { writer, items, calls } = await opened();
    const given = [result('a', '1'), result('b', '2'), result('a', '3')];

    expect(await writer.write(given, NEVER)).toEqual([WRITTEN, WRITTEN, WRITTEN]);

    expect(calls().flat().toSorted()).toEqual(['a', 'b']);
    expect(await items()).toMatchObject({ a: { body: { S: '3' } }, b: { body: { S: '2' } } });
    const front = await server.front(answersJson(400, { __type: 'x#ValidationException', message: 'wrong' }));
    const refused = createTableWriter({ dynamodb: server.client(front), tableName: 'any', ttlSeconds: 60 });
    expect(await refused.write(given, NEVER)).toMatchObject(
      Array(3).fill({ message: 'result table: ValidationException: wrong' }),
    );
  });
});

describe('a result that is too large for an item', () => {
  const exact = resultOf(MAX_ITEM_BYTES, 'exact');
  const large = resultOf(MAX_ITEM_BYTES + 1, 'large');
  const wide = resultOf(MAX_ITEM_BYTES + 18, 'wide', '€');

  it('is refused for good, with the sizes, and holds up no other', async () => {
    const { writer, items } = await opened();

    const refused = (bytes: number) => ({
      code: 'RESULT_TOO_LARGE',
      message: expect.stringMatching(`at most 409600 bytes, the size of a DynamoDB item, got ${bytes}; `),
    });
    expect(await writer.write([large, exact, wide], NEVER)).toMatchObject([
      refused(409_601),
      WRITTEN,
      refused(409_618),
    ]);
    expect(Object.keys(await items())).toEqual(['exact']);
  });

  it('goes to the payload bucket and leaves a pointer', async () => {
    const bucket = await s3Server.bucket();
    const payloads = createPayloads({ s3: s3Server.client(), bucket, maxBytes: 1 });
    const { writer, items } = await opened({ payloads });

    expect(await writer.write([large, exact], NEVER)).toEqual([WRITTEN, WRITTEN]);

    const { large: item = {} } = await items();
    expect(Object.keys(item).toSorted()).toEqual(['expiresAt', 'messageId', 'pointer']);
    const [key = ''] = await s3Server.keys(bucket);
    expect(parsePointer(JSON.parse(item.pointer?.S ?? ''))).toEqual({ bucket, key });
    expect((await s3Server.text(bucket, key)) === large.body).toBe(true);
  });
});
