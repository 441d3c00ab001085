/**
 * An AWS of one process: ministack, with what runs images in the place of Docker, and boto3 as a client that shares no
 * code with ours. `startEmulator` installs what it needs below `.venv`, once.
 */
import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { json } from 'node:stream/consumers';
import { REPOSITORY } from '../../helpers/command.ts';

const PACKAGES = ['ministack==1.5.33', 'boto3==1.43.106'];
const VENV = join(REPOSITORY, '.venv/deploy', PACKAGES.join('-').replaceAll('==', '-'));

/** The account, the region and the credentials of whoever deploys: ministack takes them for the account's own. */
const ACCOUNT = {
  AWS_ACCESS_KEY_ID: 'test',
  AWS_SECRET_ACCESS_KEY: 'test',
  AWS_REGION: 'us-east-1',
  AWS_DEFAULT_REGION: 'us-east-1',
  MINISTACK_ACCOUNT_ID: '000000000000',
};

export type Emulator = Awaited<ReturnType<typeof startEmulator>>;

/** @param folder whose folders may hold images: a `cdk.out` for each deployment */
export async function startEmulator(folder: string) {
  if (!existsSync(join(VENV, 'bin/ministack'))) {
    execFileSync('python3', ['-m', 'venv', '--clear', VENV], { stdio: 'inherit' });
    execFileSync(join(VENV, 'bin/pip'), ['install', '--quiet', ...PACKAGES], { stdio: 'inherit' });
  }
  const python = join(VENV, 'bin/python');
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env = { PATH: process.env.PATH, HOME: folder, TMPDIR: folder, ...ACCOUNT, AWS_ENDPOINT_URL: url };
  const bridge = await startBridge(folder, { ...env, ORT_DISABLE_TELEMETRY: '1' });

  const server = spawn(python, [join(import.meta.dirname, 'emulator.py')], {
    env: {
      ...env,
      BRIDGE: bridge.url,
      AUTH: 'true',
      GATEWAY_PORT: String(port),
      BIND_HOST: '127.0.0.1',
      MINISTACK_HOST: '127.0.0.1',
      LOG_LEVEL: 'WARNING',
    },
    stdio: 'pipe',
  });
  let printed = '';
  for (const stream of [server.stdout, server.stderr]) {
    stream.on('data', (chunk) => {
      printed += chunk;
    });
  }
  const ended = once(server, 'close');
  await listening(url, ended, () => printed);
  const boto = startBoto(python, env);

  return {
    /** For what talks to it: the CDK's command line, our own. */
    env,
    call: boto.call,
    printed: () => `${printed}\n${bridge.printed()}`,
    async stop(): Promise<void> {
      boto.stop();
      server.stdin.end();
      await ended;
      bridge.stop();
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function listening(url: string, ended: Promise<unknown>, printed: () => string): Promise<void> {
  let isGone = false;
  void ended.then(() => {
    isGone = true;
  });
  while (
    !(await fetch(`${url}/_ministack/health`).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    if (isGone) throw new Error(`expected the emulator to start, it ended:\n${printed()}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** boto3, a call at a time for each that is made here. */
function startBoto(python: string, env: NodeJS.ProcessEnv) {
  const child = spawn(python, [join(import.meta.dirname, 'boto.py')], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { number, value, error } = JSON.parse(line);
    const { resolve, reject } = waiting.get(number) ?? Promise.withResolvers<unknown>();
    if (error === undefined) resolve(value);
    else reject(new Error(error));
    waiting.delete(number);
  });
  let calls = 0;
  return {
    /** @param operation as boto3 names it @throws Error with what AWS said */
    // biome-ignore lint/suspicious/noExplicitAny: answers of any service, which the tests compare.
    async call(service: string, operation: string, parameters: object = {}): Promise<any> {
      const number = calls++;
      const answer = Promise.withResolvers<unknown>();
      waiting.set(number, answer);
      child.stdin.write(`${JSON.stringify([number, service, operation, parameters])}\n`);
      return await answer.promise;
    },
    stop: () => child.stdin.end(),
  };
}

interface Call {
  readonly config: {
    readonly FunctionArn: string;
    readonly MemorySize: number;
    readonly Timeout: number;
    readonly ImageUri: string;
    readonly Environment?: { readonly Variables: Record<string, string> };
    readonly ImageConfigResponse?: { readonly ImageConfig: { readonly Command?: readonly string[] } };
  };
  readonly event: unknown;
  readonly credentials: Record<string, string>;
  readonly region: string;
}

type Answer = { readonly body?: unknown; readonly failure?: { errorType: string; errorMessage: string } };

/** Runs the images of functions: a process for each call at a time, kept for the calls that follow, as Lambda does. */
async function startBridge(folder: string, env: NodeJS.ProcessEnv) {
  const idle = new Map<string, ChildProcess[]>();
  const all = new Set<ChildProcess>();
  let printed = '';

  const start = async ({ config, credentials, region }: Call): Promise<ChildProcess | Answer> => {
    const [command = 'handler.handler'] = config.ImageConfigResponse?.ImageConfig.Command ?? [];
    const cwd = imageOf(config.ImageUri);
    const child = fork(join(import.meta.dirname, 'environment.ts'), [cwd, command], {
      cwd,
      env: {
        PATH: env.PATH,
        AWS_ENDPOINT_URL: env.AWS_ENDPOINT_URL,
        ORT_DISABLE_TELEMETRY: '1',
        NODE_COMPILE_CACHE: join(folder, 'compiled'),
        ...config.Environment?.Variables,
        ...credentials,
        AWS_REGION: region,
        AWS_LAMBDA_FUNCTION_NAME: config.FunctionArn,
        AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(config.MemorySize),
      },
      execArgv: [`--max-old-space-size=${Math.floor(0.9 * config.MemorySize)}`],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    all.add(child);
    child.once('close', () => all.delete(child));
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk) => {
        printed += chunk;
      });
    }
    const { failure } = await nextAnswer(child);
    if (failure === undefined) return child;
    child.kill('SIGKILL');
    return { failure };
  };

  const run = async (call: Call): Promise<Answer> => {
    const { FunctionArn, ImageUri, Environment, MemorySize, Timeout } = call.config;
    const key = JSON.stringify([FunctionArn, ImageUri, Environment, MemorySize, Timeout]);
    const free = idle.get(key) ?? [];
    idle.set(key, free);
    const child = free.pop() ?? (await start(call));
    if (!('send' in child)) return child;
    const late = setTimeout(() => child.kill('SIGKILL'), 1000 * Timeout);
    child.send({ event: call.event, deadlineMs: Date.now() + 1000 * Timeout });
    const answer = await nextAnswer(child);
    clearTimeout(late);
    if (child.connected) free.push(child);
    return answer;
  };

  const server: Server = createServer(async (request: IncomingMessage, response) => {
    const { body = null, failure } = await run((await json(request)) as Call).catch(
      ({ name, message }: Error): Answer => ({ failure: { errorType: name, errorMessage: message } }),
    );
    response.end(JSON.stringify({ body: failure ?? body, failed: failure !== undefined }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  /** The folder that an image was staged in: its tag is the folder's hash. */
  function imageOf(uri: string): string {
    const asset = `asset.${uri.slice(uri.lastIndexOf(':') + 1)}`;
    const found = readdirSync(folder)
      .map((deployment) => join(folder, deployment, asset))
      .find((path) => existsSync(path));
    if (found === undefined) throw new Error(`${uri}: expected the folder ${asset}, got none`);
    return found;
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    printed: () => printed,
    stop(): void {
      for (const child of all) child.kill('SIGKILL');
      server.close();
      server.closeAllConnections();
    },
  };
}

/** What an environment says next; one that ends says so too, in Lambda's words. */
async function nextAnswer(child: ChildProcess): Promise<Answer> {
  const answer = Promise.withResolvers<Answer>();
  const end = (code: number | null, signal: NodeJS.Signals | null): void =>
    answer.resolve({
      failure: { errorType: 'Runtime.ExitError', errorMessage: `the process ended with ${code ?? signal}` },
    });
  child.once('message', (message) => answer.resolve(message as Answer));
  child.once('exit', end);
  try {
    return await answer.promise;
  } finally {
    child.off('exit', end);
  }
}
