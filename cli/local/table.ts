import type { AddressInfo } from 'node:net';
import { CreateTableCommand, type DynamoDBClient, waitUntilTableExists } from '@aws-sdk/client-dynamodb';
import dynalite from 'dynalite';
import { createDynamoDbClient, HOST_PATIENCE } from '../../lambda/aws/awsClients.ts';
import { MESSAGE_ID_ATTRIBUTE } from '../../lambda/core/record.ts';
import { refuseForeignCallers } from './foreignCallers.ts';

export interface LocalTable {
  /** `http://127.0.0.1:PORT`: the endpoint to give any DynamoDB client. */
  readonly endpoint: string;
  readonly tableName: string;
  stop(): Promise<void>;
}

const TABLE = 'batchscore-results';

/** Starts a DynamoDB server in this process, in memory, on a free port of 127.0.0.1, with the result table. */
export async function startLocalTable(region: string): Promise<LocalTable> {
  const server = dynalite({ createTableMs: 0 });
  refuseForeignCallers(server);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await createTable(endpoint, region);
  return { endpoint, tableName: TABLE, stop: () => new Promise((resolve) => void server.close(() => resolve())) };
}

export function localTableClient(endpoint: string, region: string): DynamoDBClient {
  return createDynamoDbClient(HOST_PATIENCE, {
    endpoint,
    region,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  });
}

async function createTable(endpoint: string, region: string): Promise<void> {
  const client = localTableClient(endpoint, region);
  try {
    await client.send(
      new CreateTableCommand({
        TableName: TABLE,
        AttributeDefinitions: [{ AttributeName: MESSAGE_ID_ATTRIBUTE, AttributeType: 'S' }],
        KeySchema: [{ AttributeName: MESSAGE_ID_ATTRIBUTE, KeyType: 'HASH' }],
        BillingMode: 'PAY_PER_REQUEST',
      }),
    );
    await waitUntilTableExists({ client, maxWaitTime: 10, minDelay: 0.05, maxDelay: 0.5 }, { TableName: TABLE });
  } finally {
    client.destroy();
  }
}
