/**
 * Starts, measures and ends the processes of a contestant. A mark in the environment identifies them. Each contestant is
 * one file in `peers/`.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Pool } from 'undici';

export interface Setup {
  /** Folder of the model repository, and the model's name. */
  readonly repository: string;
  readonly model: string;
  readonly maxBatch: number;
  /** Request that is sent until it is answered, which shows that the contestant has started. */
  readonly probe: string;
}

export interface Served {
  readonly startMs: number;
  /** True if an answer remains available after its client has left. */
  readonly keepsAnswers: boolean;
  /**
   * @returns the answer to a body, or an array for a packed one. It rejects with an error, or with the reason of the
   * signal.
   */
  ask(body: string, signal?: AbortSignal): Promise<string>;
  usage(): { cpuMs: number; memoryMb: number };
  /** Resolves when the contestant has received some requests, or after a short time. */
  holdsSome(): Promise<void>;
  /** Kills all processes of the contestant. They restart as in a deployment. */
  kill(): void;
  stop(): Promise<void>;
}

export interface Contestant {
  readonly name: string;
  /** Packages with their versions. */
  readonly packages: readonly string[];
  readonly packs?: boolean;
  start(setup: Setup): Promise<Served>;
}

/** Maximum time of a request or a batch. */
export const TIMEOUT_S = 10;
const START_MS = 90_000;
const RUNTIME = 'onnxruntime==1.30.0';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const PACKAGES = here('.venv');

interface Http {
  readonly environment?: Readonly<Record<string, string>>;
  readonly path?: string;
}

export function python(name: string, packages: readonly string[], http: Http = {}): Contestant {
  const start = overHttp([python3(name), here(`peers/${name}_peer.py`)], http);
  return { name, packages: [...packages, RUNTIME], start };
}

function python3(environment: string): string {
  return `${PACKAGES}/${environment}/bin/python`;
}

/** Installs missing packages. @returns the reasons to leave contestants out, by name */
export async function install(some: readonly Contestant[], say: (line: string) => void): Promise<Map<string, string>> {
  const leftOut = new Map<string, string>();
  const run = promisify(execFile);
  for (const { name, packages } of some) {
    const environment = name.split(',')[0] as string;
    const folder = `${PACKAGES}/${environment}`;
    if (packages.length === 0 || existsSync(`${folder}/installed`)) continue;
    say(`installing ${packages.join(', ')}`);
    try {
      await mkdir(folder, { recursive: true });
      await run('python3', ['-m', 'venv', folder]);
      await run(python3(environment), ['-m', 'pip', 'install', '--quiet', ...packages]);
      await run('touch', [`${folder}/installed`]);
    } catch (error) {
      leftOut.set(name, String(error).split('\n').slice(0, 3).join(' '));
    }
  }
  return leftOut;
}

const groups = new Set<Group>();
export function endAll(): void {
  for (const group of groups) group.end();
}

/** Processes of a contestant and all of their descendants, found by the mark that they inherit. */
export class Group {
  readonly #mark = `FIELD_MARK=${randomUUID()}`;
  readonly #command: readonly string[];
  readonly #environment: Readonly<Record<string, string>>;
  #main: ChildProcess | undefined;
  #isEnded = false;
  #printed = '';

  constructor(command: readonly string[], environment: Readonly<Record<string, string>>) {
    this.#command = command;
    this.#environment = environment;
    groups.add(this);
  }

  /** Returns the first process, or starts a new one if that has ended. */
  main(): ChildProcess {
    if (this.#main !== undefined && this.#main.exitCode === null && this.#main.signalCode === null) return this.#main;
    const [mark = '', id = ''] = this.#mark.split('=');
    const [command = '', ...args] = this.#command;
    const main = spawn(command, args, {
      cwd: here('peers'),
      env: { PATH: process.env.PATH, HOME: `${PACKAGES}/home`, [mark]: id, ...this.#environment },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    for (const stream of [main.stdout, main.stderr]) {
      stream?.on('data', (data) => (this.#printed = (this.#printed + data).slice(-4000)));
    }
    main.on('error', (error) => (this.#printed += String(error)));
    this.#main = main;
    return main;
  }

  supervise(): void {
    this.main().once('exit', () => {
      if (!this.#isEnded) setTimeout(() => !this.#isEnded && this.supervise(), 100);
    });
  }

  #ids(): string[] {
    return readdirSync('/proc').filter((id) => {
      return /^\d+$/.test(id) && readOf(id, 'environ').split('\0').includes(this.#mark);
    });
  }

  /**
   * Returns the CPU time so far of the running processes and their ended children, and the memory with each shared page
   * counted once.
   */
  usage(): { cpuMs: number; memoryMb: number } {
    let [ticks, kilobytes] = [0, 0];
    for (const id of this.#ids()) {
      const [, fields = ''] = readOf(id, 'stat').split(') ');
      for (const field of fields.split(' ').slice(11, 15)) ticks += Number(field);
      kilobytes += Number(/^Pss:\s+(\d+)/m.exec(readOf(id, 'smaps_rollup'))?.[1] ?? 0);
    }
    return { cpuMs: ticks * 10, memoryMb: kilobytes / 1024 };
  }

  kill(): void {
    // A process that starts meanwhile has the mark too.
    for (let ids = this.#ids(); ids.length > 0; ids = this.#ids()) {
      for (const id of ids) {
        try {
          process.kill(Number(id), 'SIGKILL');
        } catch {
          // The process has just ended.
        }
      }
      if (ids.every((id) => readOf(id, 'stat').includes(') Z '))) break;
    }
  }

  end(): void {
    this.#isEnded = true;
    this.kill();
    groups.delete(this);
  }

  printed(): string {
    return this.#printed;
  }
}

/** Reads a file of a process in `/proc`. @returns an empty text if the process has ended */
function readOf(id: string, file: string): string {
  try {
    return readFileSync(`/proc/${id}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

const STARTING_POLL_MS = 5;

/** Sends the probe until it is answered. @returns milliseconds */
export async function untilStarted(group: Group, ask: Served['ask'], probe: string): Promise<number> {
  const startedAt = performance.now();
  const deadline = AbortSignal.timeout(START_MS);
  for (;;) {
    try {
      await ask(probe, deadline);
      return performance.now() - startedAt;
    } catch (error) {
      if (deadline.aborted || error instanceof TypeError || error instanceof RangeError) {
        throw new Error(
          `expected an answer within ${START_MS / 1000} s, got ${String(error)}; it printed ${group.printed()}`,
        );
      }
      await sleep(STARTING_POLL_MS);
    }
  }
}

export function environmentOf(setup: Setup, more: Readonly<Record<string, string>>): Record<string, string> {
  return {
    FIELD_MODEL: `${setup.repository}/${setup.model}/1/model.onnx`,
    FIELD_MAX_BATCH: String(setup.maxBatch),
    FIELD_TIMEOUT_S: String(TIMEOUT_S),
    ORT_DISABLE_TELEMETRY: '1',
    RAY_USAGE_STATS_ENABLED: '0',
    ...more,
  };
}

const MAX_CONNECTIONS = 256;

export function overHttp(command: readonly string[], { path = '/', environment }: Http = {}): Contestant['start'] {
  return async (setup) => {
    const port = String(await freePort());
    const group = new Group(command, environmentOf(setup, { FIELD_PORT: port, ...environment }));
    const pool = new Pool(`http://127.0.0.1:${port}`, {
      connections: MAX_CONNECTIONS,
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    const ask: Served['ask'] = async (body, signal) => {
      const { statusCode, body: answer } = await pool.request({
        path,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
        signal,
      });
      const text = await answer.text();
      if (statusCode !== 200) throw new Answered(`${statusCode} ${text.slice(0, 200)}`);
      if (/^\{\s*"error"/.test(text)) throw new Answered(text);
      return text;
    };
    group.supervise();
    return {
      keepsAnswers: false,
      startMs: await untilStarted(group, ask, setup.probe).catch((error: unknown) => {
        group.end();
        throw error;
      }),
      ask,
      usage: () => group.usage(),
      holdsSome: async () => void (await sleep(1)),
      kill: () => group.kill(),
      async stop() {
        group.end();
        await pool.destroy();
      },
    };
  };
}

export class Answered extends Error {}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  return port;
}
