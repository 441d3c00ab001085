import { once } from 'node:events';
import {
  type AttributeValue,
  CreateTableCommand,
  type DynamoDBClient,
  ScanCommand,
  waitUntilTableExists,
} from '@aws-sdk/client-dynamodb';
import { afterAll, afterEach, beforeAll } from '@jest/globals';
import dynalite from 'dynalite';
import { createDynamoDbClient, HOST_PATIENCE, type Patience } from '../../lambda/aws/awsClients.ts';
import { type FrontServer, type Step, startFront } from './frontServer.ts';

export type Item = Readonly<Record<string, AttributeValue>>;

export interface DynamoDbServer {
  /** A client of the server, or of what is in front of it; it is closed after the test. */
  client(other?: { readonly endpoint: string }, patience?: Patience): DynamoDBClient;
  /** What answers requests in the server's place, one step after the other; stopped after the test. */
  front(...steps: readonly (Step | undefined)[]): Promise<FrontServer>;
  /** An empty table of its own, of the partition key `messageId`, for the test that asks. @returns its name */
  table(): Promise<string>;
  /** The items of a table by their message ID. */
  items(tableName: string): Promise<Record<string, Item>>;
}

/** A DynamoDB server in this process for the tests of a file, started before the first and stopped after the last. */
export function useDynamoDbServer(): DynamoDbServer {
  const server = dynalite({ createTableMs: 0 });
  let endpoint = '';
  let tables = 0;
  const cleanups: (() => Promise<void> | void)[] = [];

  beforeAll(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('expected a TCP address');
    endpoint = `http://127.0.0.1:${address.port}`;
  });
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  const client: DynamoDbServer['client'] = (other, patience = HOST_PATIENCE) => {
    const dynamodb = createDynamoDbClient(patience, {
      endpoint: other?.endpoint ?? endpoint,
      region: 'us-east-1',
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    });
    cleanups.push(() => dynamodb.destroy());
    return dynamodb;
  };
  return {
    client,
    async front(...steps) {
      const front = await startFront(endpoint, steps);
      cleanups.push(front.stop);
      return front;
    },
    async table() {
      const TableName = `table-${tables++}`;
      await client().send(
        new CreateTableCommand({
          TableName,
          AttributeDefinitions: [{ AttributeName: 'messageId', AttributeType: 'S' }],
          KeySchema: [{ AttributeName: 'messageId', KeyType: 'HASH' }],
          BillingMode: 'PAY_PER_REQUEST',
        }),
      );
      await waitUntilTableExists({ client: client(), maxWaitTime: 5, minDelay: 0.01, maxDelay: 0.1 }, { TableName });
      return TableName;
    },
    async items(TableName) {
      const items: Record<string, Item> = {};
      let ExclusiveStartKey: Item | undefined;
      do {
        const page = await client().send(new ScanCommand({ TableName, ExclusiveStartKey }));
        for (const item of page.Items ?? []) items[item.messageId?.S ?? ''] = item;
        ExclusiveStartKey = page.LastEvaluatedKey;
      } while (ExclusiveStartKey !== undefined);
      return items;
    },
  };
}
