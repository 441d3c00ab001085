import { generateKeyPairSync, sign } from 'node:crypto';

/** A certificate for 127.0.0.1 that is its own authority, with its key, both as PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

const DAY_MS = 86_400_000;

/** An ECDSA certificate (P-256), as AWS's endpoints have them, valid for two days. */
export function createCertificate(): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const name = sequence(set(sequence(COMMON_NAME, tagged(0x0c, Buffer.from('127.0.0.1')))));
  const signed = sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))), // version 3
    tagged(0x02, Buffer.from([1])), // serial number
    sequence(ECDSA_WITH_SHA256),
    name,
    sequence(time(Date.now() - DAY_MS), time(Date.now() + DAY_MS)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(extension(BASIC_CONSTRAINTS, sequence(TRUE)), extension(ALT_NAME, sequence(LOOPBACK)))),
  );
  const signature = sign('sha256', signed, privateKey);
  const der = sequence(signed, sequence(ECDSA_WITH_SHA256), tagged(0x03, Buffer.of(0), signature));
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${der.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

/** An ASN.1 value in DER. */
function tagged(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.of(tag, length), content]);
  if (length < 0x100) return Buffer.concat([Buffer.of(tag, 0x81, length), content]);
  return Buffer.concat([Buffer.of(tag, 0x82, length >> 8, length & 0xff), content]);
}

const sequence = (...values: readonly Buffer[]): Buffer => tagged(0x30, ...values);
const set = (...values: readonly Buffer[]): Buffer => tagged(0x31, ...values);
const objectIdentifier = (hex: string): Buffer => tagged(0x06, Buffer.from(hex, 'hex'));
const time = (ms: number): Buffer => tagged(0x18, Buffer.from(new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '')));
const extension = (id: Buffer, value: Buffer): Buffer => sequence(id, tagged(0x04, value));

const COMMON_NAME = objectIdentifier('550403');
const ECDSA_WITH_SHA256 = objectIdentifier('2a8648ce3d040302');
const BASIC_CONSTRAINTS = objectIdentifier('551d13');
const ALT_NAME = objectIdentifier('551d11');
const TRUE = tagged(0x01, Buffer.of(0xff));
const LOOPBACK = tagged(0x87, Buffer.of(127, 0, 0, 1));
