import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { afterEach } from '@jest/globals';

/** A segment document, as X-Ray's documentation has it. */
export interface SegmentDocument {
  readonly name: string;
  readonly id: string;
  readonly start_time: number;
  readonly end_time: number;
  readonly fault?: boolean;
  readonly trace_id?: string;
  readonly parent_id?: string;
  readonly type?: string;
  readonly annotations?: Readonly<Record<string, unknown>>;
  readonly metadata?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly links?: readonly { readonly trace_id: string; readonly id: string }[];
  readonly subsegments?: readonly SegmentDocument[];
}

export interface XrayDaemon {
  /** As `AWS_XRAY_DAEMON_ADDRESS` has it. */
  readonly address: string;
  /** The documents so far, in order of arrival. */
  readonly documents: readonly SegmentDocument[];
  /** The bytes of each datagram. */
  readonly sizes: readonly number[];
  /** Resolves once there are so many documents. */
  has(count: number): Promise<void>;
  stop(): Promise<void>;
}

const HEADER = '{"format":"json","version":1}\n';
const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

/** What the X-Ray daemon is to a function: a UDP port that takes documents behind a header. Closed after the test. */
export async function startXrayDaemon(port = 0): Promise<XrayDaemon> {
  const socket = createSocket('udp4');
  const documents: SegmentDocument[] = [];
  const sizes: number[] = [];
  socket.on('message', (datagram) => {
    const text = datagram.toString();
    if (!text.startsWith(HEADER)) throw new Error(`expected the daemon's header, got ${text.slice(0, 50)}`);
    documents.push(JSON.parse(text.slice(HEADER.length)));
    sizes.push(datagram.length);
    socket.emit('document');
  });
  socket.bind(port, '127.0.0.1');
  await once(socket, 'listening');
  let stopped: Promise<unknown> | undefined;
  const stop = async (): Promise<void> => {
    if (stopped === undefined) {
      stopped = once(socket, 'close');
      socket.close();
    }
    await stopped;
  };
  cleanups.push(stop);
  return {
    address: `127.0.0.1:${socket.address().port}`,
    documents,
    sizes,
    async has(count) {
      while (documents.length < count) await once(socket, 'document');
    },
    stop,
  };
}
