import { createHash, createHmac } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { Sha256 } from '../../../lambda/aws/leanClients.ts';

const TEXT = 'AWS4-HMAC-SHA256 ü';
const SECRETS = ['a secret', 'another secret', Uint8Array.of(1, 2, 3), new Uint8Array([9, 4, 5, 6, 9]).subarray(1, 4)];

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

describe('Sha256', () => {
  it.each([[], [TEXT], ['', TEXT], [TEXT, TEXT, TEXT]])(
    'hashes what it was given, in pieces: %j',
    async (...pieces) => {
      const sha256 = new Sha256();
      for (const piece of pieces) sha256.update(Buffer.from(piece));

      expect(hex(await sha256.digest())).toBe(createHash('sha256').update(pieces.join('')).digest('hex'));
    },
  );

  it('knows each secret from the others, whichever was used before', async () => {
    for (const secret of [...SECRETS, ...SECRETS]) {
      const sha256 = new Sha256(secret);
      sha256.update(TEXT);

      expect(hex(await sha256.digest())).toBe(createHmac('sha256', secret).update(TEXT).digest('hex'));
    }
  });

  it('takes bytes however they are viewed', async () => {
    const { buffer } = Uint8Array.from(Buffer.from('xabcx'));
    for (const view of [new DataView(buffer, 1, 3), new Uint8Array(buffer, 1, 3)]) {
      const sha256 = new Sha256();
      sha256.update(view);
      expect(hex(await sha256.digest())).toBe(createHash('sha256').update('abc').digest('hex'));
    }
  });

  it('forgets what it was given when it is reset', async () => {
    const sha256 = new Sha256();
    sha256.update('x');
    sha256.reset();
    sha256.update(TEXT);

    expect(hex(await sha256.digest())).toBe(createHash('sha256').update(TEXT).digest('hex'));
  });
});
