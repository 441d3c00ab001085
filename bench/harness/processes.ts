import { fork } from 'node:child_process';
import { generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A process of its own, so that its CPU time and memory are its own too. */
export interface Child {
  /** Sends a question and waits for the answer. @throws Error when the process ends before */
  ask<Answer>(question: unknown): Promise<Answer>;
  /** Rejects when the process ends by itself. */
  readonly died: Promise<never>;
  stop(): Promise<void>;
}

interface Start {
  readonly args?: readonly string[];
  /** @default this process's own */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** A script that is loaded first. */
  readonly preload?: URL;
}

/** The processes of a bench: contestants, and the servers that they call over TLS. */
export interface Processes {
  start(script: URL, how?: Start): Child;
  /** Starts a server that takes `{ certificate, ...settings }` and answers with its port. */
  startServer(script: URL, settings?: object): Promise<Child & { readonly endpoint: string }>;
  /** What a process needs in its environment to call such a server in place of AWS. */
  environmentFor(endpoint: string): Record<string, string | undefined>;
  stop(): Promise<void>;
}

export async function openProcesses(): Promise<Processes> {
  const certificate = createCertificate();
  const directory = await mkdtemp(join(tmpdir(), 'batchscore-bench-'));
  const certificateFile = join(directory, 'certificate.pem');
  await writeFile(certificateFile, certificate.cert);
  const children: Child[] = [];
  const start: Processes['start'] = (script, how) => {
    const child = startChild(script, how);
    children.push(child);
    return child;
  };
  return {
    start,
    async startServer(script, settings) {
      const child = start(script);
      const port = await child.ask<number>({ certificate, ...settings });
      return { ...child, endpoint: `https://127.0.0.1:${port}` };
    },
    environmentFor: (endpoint) => ({
      PATH: process.env.PATH,
      NODE_EXTRA_CA_CERTS: certificateFile,
      AWS_ENDPOINT_URL: endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'bench',
      AWS_SECRET_ACCESS_KEY: 'bench',
      AWS_SESSION_TOKEN: 'bench',
    }),
    async stop() {
      // Contestants before the servers that they poll.
      for (const child of children.toReversed()) await child.stop();
      await rm(directory, { recursive: true });
    },
  };
}

function startChild(script: URL, { args = [], env = process.env, preload }: Start = {}): Child {
  const child = fork(script, args, {
    execArgv: preload === undefined ? [] : ['--import', preload.href],
    // Metrics are written to stdout, as a function writes them.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env,
  });
  const exited = once(child, 'exit');
  const died = exited.then(([code]): never => {
    throw new Error(`expected ${script.pathname} to answer, it ended with code ${code}`);
  });
  died.catch(() => {});
  return {
    died,
    async ask(question) {
      child.send(question as object);
      const [answer] = await Promise.race([once(child, 'message'), died]);
      return answer;
    },
    async stop() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

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
