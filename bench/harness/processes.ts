import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Child process, so that its CPU time and memory are separate. */
export interface Child {
  /** Sends a question and waits for the answer. @throws Error if the process ends first */
  ask<Answer>(question: unknown): Promise<Answer>;
  /** Rejects if the process ends by itself. */
  readonly died: Promise<never>;
  stop(): Promise<void>;
}

interface Start {
  /** @default the environment of this process */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly preload?: URL;
}

/** Processes of a bench: contestants, and the TLS servers that they call. */
export interface Processes {
  start(script: URL, how?: Start): Child;
  /** Starts a server that takes `{ certificate }` and answers with its port. */
  startServer(script: URL): Promise<Child & { readonly endpoint: string }>;
  /** Returns the environment variables that make a process call such a server instead of AWS. */
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
    async startServer(script) {
      const child = start(script);
      const port = await child.ask<number>({ certificate });
      return { ...child, endpoint: `https://127.0.0.1:${port}` };
    },
    environmentFor: (endpoint) => ({
      PATH: process.env.PATH,
      // It names the folders of CUDA.
      LD_LIBRARY_PATH: process.env.LD_LIBRARY_PATH,
      NODE_EXTRA_CA_CERTS: certificateFile,
      AWS_ENDPOINT_URL: endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'bench',
      AWS_SECRET_ACCESS_KEY: 'bench',
      AWS_SESSION_TOKEN: 'bench',
    }),
    async stop() {
      // Contestants stop before the servers that they poll.
      for (const child of children.toReversed()) await child.stop();
      await rm(directory, { recursive: true });
    },
  };
}

function startChild(script: URL, { env = process.env, preload }: Start = {}): Child {
  const child = fork(script, {
    execArgv: preload === undefined ? [] : ['--import', preload.href],
    // The process writes metrics to stdout, as a function does.
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

/** Self-signed certificate for 127.0.0.1 with its key, both as PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** Creates an ECDSA certificate (P-256), as AWS's endpoints use, valid for two days. */
function createCertificate(): Certificate {
  const options = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1';
  const args = ['req', ...options.split(' '), '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', '-', '-out', '-'];
  const text = execFileSync('openssl', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const [key = '', cert = ''] = text.split(/(?=-----BEGIN CERTIFICATE-----)/);
  return { cert, key };
}
