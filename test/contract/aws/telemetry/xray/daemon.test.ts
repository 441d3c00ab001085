import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { connectToDaemon, type SendDocument } from '../../../../../lambda/aws/xray.ts';
import { startXrayDaemon, type XrayDaemon } from '../../../../helpers/xrayDaemon.ts';

const DOCUMENT = '{"name":"batchscore"}';

function refuseToWarn(message: string): void {
  throw new Error(`expected no warning, got ${message}`);
}

/** Sends until a document has arrived: those before the socket is connected are lost. */
async function sendUntilArrived(send: SendDocument, daemon: XrayDaemon): Promise<void> {
  while (daemon.documents.length === 0) {
    send(DOCUMENT);
    await setImmediate();
  }
}

describe('the way to the X-Ray daemon', () => {
  it.each([
    ['host:port', (address: string) => address],
    ['the address of both protocols', (address: string) => `tcp:127.0.0.1:1 udp:${address}`],
    ['the address of both protocols, the other way round', (address: string) => `udp:${address} tcp:127.0.0.1:1`],
  ])('is given as %s', async (_, spell) => {
    const daemon = await startXrayDaemon();

    await sendUntilArrived(connectToDaemon(spell(daemon.address), refuseToWarn), daemon);

    expect(daemon.documents[0]).toEqual(JSON.parse(DOCUMENT));
  });

  it.each([undefined, '', 'somewhere', '127.0.0.1:0', '127.0.0.1:65536', 'tcp:127.0.0.1:2000'])(
    'is not known from %j, which is a warning and no error',
    (address) => {
      const warnings: string[] = [];
      const send = connectToDaemon(address, (message) => void warnings.push(message));

      expect(() => send(DOCUMENT)).not.toThrow();

      expect(warnings).toEqual([expect.stringMatching(/expected host:port.*nothing is traced/)]);
    },
  );

  it('stays open while nobody listens, and leads to whoever listens next', async () => {
    const gone = await startXrayDaemon();
    const send = connectToDaemon(gone.address, refuseToWarn);
    await sendUntilArrived(send, gone);
    await gone.stop();

    for (let documents = 0; documents < 10; documents++) {
      expect(() => send(DOCUMENT)).not.toThrow();
      await setImmediate();
    }
    const back = await startXrayDaemon(Number(gone.address.split(':')[1]));
    await sendUntilArrived(send, back);

    expect(back.documents[0]).toEqual(JSON.parse(DOCUMENT));
  });

  it('takes no document that a datagram cannot hold, nor does it fail', async () => {
    const daemon = await startXrayDaemon();
    const send = connectToDaemon(daemon.address, refuseToWarn);
    await sendUntilArrived(send, daemon);

    expect(() => send('x'.repeat(100_000))).not.toThrow();

    send('{"name":"next"}');
    await daemon.has(2);
    expect(daemon.documents.at(-1)).toEqual({ name: 'next' });
  });
});
