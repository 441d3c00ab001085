import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Certificate } from '../workload/certificate.ts';

/** Messages that a queue gives to who polls it. */
export interface Supply {
  /** Given in turn. @default those of the last time */
  readonly bodies?: readonly string[];
  readonly messages: number;
}

/** What the queues were told until all messages were deleted. */
export interface Taken {
  /** Of the bodies of results. */
  bytes: number;
  /** Calls that held an error in place of scores. */
  errors: number;
}

/** SQS in a process of its own. */
export interface QueueServer {
  readonly endpoint: string;
  /** Puts messages on the request queue, and waits until all are deleted. */
  untilDeleted(supply: Supply): Promise<Taken>;
  stop(): Promise<void>;
}

const SCRIPT = new URL('./queueServer.ts', import.meta.url);

export async function startQueueServer(certificate: Certificate): Promise<QueueServer> {
  const child = fork(SCRIPT);
  child.send(certificate);
  const [{ port }] = await once(child, 'message');
  return {
    endpoint: `https://127.0.0.1:${port}`,
    async untilDeleted(supply) {
      child.send(supply);
      const [taken] = await once(child, 'message');
      return taken;
    },
    async stop() {
      child.disconnect();
      await once(child, 'exit');
    },
  };
}
