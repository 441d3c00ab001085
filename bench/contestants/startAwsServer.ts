import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Certificate } from '../workload/certificate.ts';

/** What SQS, DynamoDB and S3 were given, as they bill it. */
export interface Delivered {
  calls: number;
  /** Messages or items. */
  messages: number;
  /** SQS requests that the calls with messages are billed as. */
  chunks: number;
  /** Write units of the items, and read units to read each of them. */
  writeUnits: number;
  readUnits: number;
  objects: number;
  /** Calls that held an error in place of scores. */
  errors: number;
}

/** SQS, DynamoDB and S3 in a process of their own. */
export interface AwsServer {
  readonly endpoint: string;
  /** What was delivered since the last time this was asked. */
  takeDelivered(): Promise<Delivered>;
  stop(): Promise<void>;
}

const SCRIPT = new URL('./awsServer.ts', import.meta.url);

export async function startAwsServer(certificate: Certificate): Promise<AwsServer> {
  const child = fork(SCRIPT);
  child.send(certificate);
  const [{ port }] = await once(child, 'message');
  return {
    endpoint: `https://127.0.0.1:${port}`,
    async takeDelivered() {
      child.send('deliver');
      const [delivered] = await once(child, 'message');
      return delivered;
    },
    async stop() {
      child.disconnect();
      await once(child, 'exit');
    },
  };
}
