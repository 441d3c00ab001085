import { createSocket } from 'node:dgram';

/** Takes a document for X-Ray. Never throws and never waits: one that cannot be sent at once is lost. */
export type SendDocument = (document: string) => void;

const HEADER = '{"format":"json","version":1}\n';

/**
 * Sends documents to the X-Ray daemon by UDP, as Lambda's environment has one.
 *
 * @param address `AWS_XRAY_DAEMON_ADDRESS`: `host:port`, or `tcp:host:port udp:host:port`
 * @param warn told when it is neither; documents are then dropped, as requests are scored without traces too
 * @see https://docs.aws.amazon.com/xray/latest/devguide/xray-api-sendingdata.html#xray-api-daemon
 */
export function connectToDaemon(address: string | undefined, warn: (message: string) => void): SendDocument {
  const daemon = parse(address);
  if (daemon === undefined) {
    warn(
      `AWS_XRAY_DAEMON_ADDRESS: expected host:port of the X-Ray daemon, because tracing is on, got ` +
        `${JSON.stringify(address ?? '')}; nothing is traced; Lambda sets it, elsewhere set it or turn tracing off`,
    );
    return () => {};
  }
  const socket = createSocket('udp4');
  let connected = false;
  socket.on('connect', () => {
    connected = true;
  });
  // Such as that nobody listens there.
  socket.on('error', () => {});
  socket.unref();
  socket.connect(daemon.port, daemon.host);
  return (document) => {
    if (connected) socket.send(`${HEADER}${document}`, () => {});
  };
}

function parse(address = ''): { readonly host: string; readonly port: number } | undefined {
  const { host, port } = /^(?:.*\budp:)?(?<host>[^\s:]+):(?<port>\d{1,5})(?:\s.*)?$/.exec(address)?.groups ?? {};
  return host !== undefined && Number(port) > 0 && Number(port) < 65_536 ? { host, port: Number(port) } : undefined;
}
