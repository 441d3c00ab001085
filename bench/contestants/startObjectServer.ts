import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Certificate } from '../workload/certificate.ts';

export interface ServedObjects {
  readonly certificate: Certificate;
  readonly manifest: string;
  /** Of the files that the manifest names. */
  readonly directory: string;
  /** The most of one connection. @default as fast as the machine is */
  readonly bytesPerSecond?: number | undefined;
}

export interface ObjectServer {
  readonly endpoint: string;
  stop(): Promise<void>;
}

const SCRIPT = new URL('./objectServer.ts', import.meta.url);

export async function startObjectServer(served: ServedObjects): Promise<ObjectServer> {
  const child = fork(SCRIPT);
  child.send(served);
  const [{ port }] = await once(child, 'message');
  return {
    endpoint: `https://127.0.0.1:${port}`,
    async stop() {
      child.disconnect();
      await once(child, 'exit');
    },
  };
}
