import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { State } from '../../cli/page/wire.ts';

export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What each line of a text holds. */
export function jsonLines(text: string) {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

interface CommandOptions {
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Where stdout goes, in place of what is returned. */
  readonly stdoutFile?: string;
}

/**
 * Runs a script of the repository with this very Node until it ends.
 * @example const { code, stdout, stderr } = await runScript('cli/batchscore.ts', ['inspect', path]);
 */
export async function runScript(
  script: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<Finished> {
  const child = start(script, args, options);
  const output = { stdout: '', stderr: '' };
  child.stdout?.on('data', (chunk) => {
    output.stdout += chunk;
  });
  child.stderr?.on('data', (chunk) => {
    output.stderr += chunk;
  });
  child.stdin?.end(options.stdin ?? '');
  const [code] = await once(child, 'close');
  return { code, ...output };
}

export interface DevStack {
  readonly endpoint: string;
  readonly region: string;
  readonly requestQueueUrl: string;
  readonly resultQueueUrl: string;
  readonly deadLetterQueueUrl: string;
  readonly payloadBucket: string;
  readonly s3Endpoint: string;
  readonly resultTable?: string;
  readonly dynamodbEndpoint?: string;
  readonly resultBucket?: string;
  readonly jobBucket?: string;
  readonly jobStateMachine?: string;
  readonly sfnEndpoint?: string;
  readonly page?: string;
}

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export type RunningDev = Awaited<ReturnType<typeof startDev>>;

const DEV = ['cli/dev.ts'];

/**
 * Starts `npm run dev`'s script on a free port and waits for its first line.
 *
 * @param options.command in place of that script, such as that of a package
 */
export async function startDev(
  args: readonly string[] = [],
  { command = DEV, ...options }: CommandOptions & { readonly command?: readonly string[] } = {},
) {
  const [script = '', ...before] = command;
  const child = start(script, [...before, '--port', '0', ...args], options);
  const ended = once(child, 'close').then(([code, signal]): Ended => ({ code, signal }));
  const messages = createInterface({ input: child.stderr as NodeJS.ReadableStream });
  const said: string[] = [];
  messages.on('line', (line) => said.push(line));
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const died = ended.then((): never => {
    throw new Error(`expected the first line of dev, it ended:\n${said.join('\n')}`);
  });
  died.catch(() => {});
  const [firstLine] = (await Promise.race([once(lines, 'line'), died])) as [string];
  const stack: DevStack = JSON.parse(firstLine);
  return {
    stack,
    /** The first line on stdout as it was printed. */
    firstLine,
    /** Sends SIGINT. @returns the exit code */
    async interrupt(): Promise<number | null> {
      child.kill('SIGINT');
      return (await ended).code;
    },
    /** Waits until a line on stderr matches. @returns it */
    async says(pattern: RegExp): Promise<string> {
      for (;;) {
        const found = said.find((line) => pattern.test(line));
        if (found !== undefined) return found;
        await once(messages, 'line');
      }
    },
    /** The lines on stderr so far. */
    said: (): readonly string[] => said,
    send: (signal: NodeJS.Signals): void => void child.kill(signal),
    ended,
  };
}

function start(script: string, args: readonly string[], options: CommandOptions): ChildProcess {
  const { env = {}, cwd = REPOSITORY, stdoutFile } = options;
  const path = resolve(REPOSITORY, script);
  const stdout = stdoutFile === undefined ? 'pipe' : openSync(stdoutFile, 'w');
  const child = spawn(process.execPath, [path, ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['pipe', stdout, 'pipe'],
  });
  if (typeof stdout === 'number') closeSync(stdout);
  return child;
}

export const MANIFEST = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8'));

export const LOWEST_MAJOR = Number(/^>=(\d+)$/.exec(MANIFEST.engines.node)?.[1]);
/** The lowest Node that the manifest allows. */
export const LOWEST = `${LOWEST_MAJOR}.0.0`;
export const TOO_LOW = `${LOWEST_MAJOR - 1}.9.0`;

/** What Node 22.15 has brought: to import it by name ends a process on an older one. */
const WITHOUT_ZSTD = `
  const zlib = { ...process.getBuiltinModule('zlib') };
  for (const name in zlib) if (/zstd/i.test(name)) delete zlib[name];
  globalThis.olderZlib = zlib;
  const names = Object.keys(zlib).filter((name) => name !== 'default');
  const source = 'const zlib = globalThis.olderZlib; export default zlib; export const {' + names + '} = zlib;';
  process.getBuiltinModule('module').registerHooks({
    resolve: (name, context, next) =>
      /^(node:)?zlib$/.test(name) && context.conditions.includes('import')
        ? { url: 'data:text/javascript,' + encodeURIComponent(source), shortCircuit: true }
        : next(name, context),
  });`;

/** The environment in which this Node, and npm with it, takes itself for another. */
export function pretendingToBe(version: string): NodeJS.ProcessEnv {
  const pretend =
    `Object.defineProperty(process,'version',{value:'v${version}'});` +
    `Object.defineProperty(process.versions,'node',{value:'${version}'});${WITHOUT_ZSTD}`;
  return { ...process.env, NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(pretend)}` };
}

/** How a process ended, be it well or not. */
export async function outcomeOf(running: Promise<{ stdout: string; stderr: string }>): Promise<Finished> {
  return await running.then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: Finished) => ({ code, stdout, stderr }),
  );
}

interface DocExample {
  readonly title: string;
  readonly request: string;
  /** What lies in the payload bucket, where the request is a pointer. */
  readonly payload: string | undefined;
  readonly result: unknown;
}

/** The text of a page of docs/. */
export function docPage(name: string): string {
  return readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
}

/** Each `json request` fence with the `json result` after it, and the `json payload` before it if there is one. */
export function docExamples(page: string): DocExample[] {
  const examples: DocExample[] = [];
  let title = '';
  let payload: string | undefined;
  let request: string | undefined;
  for (const [, heading, kind, text = ''] of page.matchAll(/^## (.+)$|^```json (\w+)\n([\s\S]*?)^```$/gm)) {
    if (heading !== undefined) title = heading;
    if (kind === 'payload') payload = text;
    if (kind === 'request') request = text;
    if (kind === 'result' && request !== undefined) {
      examples.push({ title: `${title} ${examples.length + 1}`, request, payload, result: JSON.parse(text) });
      request = undefined;
      payload = undefined;
    }
  }
  return examples;
}

export type InTerminal = ReturnType<typeof startInTerminal>;
export type TerminalOptions = Parameters<typeof startInTerminal>[2];

/** Runs a script in a pseudo-terminal, which the program `script` of util-linux makes. @param term the kind of terminal */
export function startInTerminal(scriptFile: string, args: readonly string[], { columns = 80, term = 'xterm' } = {}) {
  if (spawnSync('script', ['--version']).status !== 0) {
    throw new Error("expected the program 'script' of util-linux, to make a terminal, got none; install bsdutils");
  }
  const path = fileURLToPath(new URL(`../../${scriptFile}`, import.meta.url));
  const node = [process.execPath, path, ...args].map(quoted).join(' ');
  // The terminal's name is what another process needs to resize it.
  const command = `stty cols ${columns} rows 24; tty; export TERM=${quoted(term)}; exec ${node}`;
  const child = spawn('script', ['-qefc', command, '/dev/null'], { cwd: REPOSITORY });
  const closed = once(child, 'close');
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  return {
    /** What the terminal was sent so far: stdout and stderr together, control sequences included. */
    output: () => output,
    /** Waits until what the terminal was sent matches. */
    shows: (pattern: RegExp) => untilMatched(child, () => output, pattern),
    /** Presses keys, `\x03` for Ctrl-C. */
    press: (keys: string) => void child.stdin.write(keys),
    /** Makes the window as wide. */
    resize(toColumns: number): void {
      const terminal = /^(\/dev\/\S+)/.exec(output)?.[1] ?? '';
      spawnSync('stty', ['-F', terminal, 'cols', String(toColumns)]);
    },
    /** Closes the window, which ends what still runs in it. */
    close: () => void child.kill(),
    /** @returns the exit code; of a process that a signal ended, 128 and its number, as shells have it */
    async ended(): Promise<number | null> {
      const [code] = await closed;
      return code;
    },
  };
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

async function untilMatched(child: ChildProcess, output: () => string, pattern: RegExp): Promise<void> {
  const ended = new AbortController();
  child.once('close', () => ended.abort());
  while (!pattern.test(output())) {
    if (child.exitCode !== null) throw new Error(`expected ${pattern} in the terminal, it ended with: ${output()}`);
    await once(child.stdout as NodeJS.ReadableStream, 'data', { signal: ended.signal }).catch(() => undefined);
  }
}

/** Returns true if each setting of the terminal that was switched off is on again: line wrap and the cursor. */
export function isRestored(output: string): boolean {
  return [7, 25].every((mode) => output.lastIndexOf(`\x1b[?${mode}h`) >= output.lastIndexOf(`\x1b[?${mode}l`));
}

/** Columns that the widest of the lines takes which were drawn, one over the other or one below the other. */
export function widestLine(output: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what a terminal is sent
  const withoutSequences = output.replaceAll(/\x1b(\[[?\d;]*[A-Za-z]|\d)/g, '\r');
  return Math.max(...withoutSequences.split(/[\r\n]/).map((line) => (line.startsWith('/dev/') ? 0 : line.length)));
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

export interface Asking {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Asks the server of a page as any program could, with headers that no browser would let a page send. */
export async function ask(url: string, { method = 'GET', path = '/', headers = {}, body }: Asking): Promise<Answer> {
  const response = await respond(url, { method, path, headers, body });
  let text = '';
  for await (const chunk of response) text += chunk;
  return { status: response.statusCode ?? 0, headers: response.headers, text };
}

/** As the page itself asks. */
export function post(url: string, path: string, body: unknown): Promise<Answer> {
  const headers = { origin: new URL(url).origin, 'content-type': 'application/json' };
  return ask(url, { method: 'POST', path, headers, body: JSON.stringify(body) });
}

/** Reads the state of a page as the page does, until it holds. */
export async function untilState(url: string, holds: (state: State) => boolean = () => true): Promise<State> {
  for (;;) {
    const { status, text } = await post(url, '/state', {});
    if (status !== 200) throw new Error(`expected the state of the page, got ${text}`);
    const state: State = JSON.parse(text);
    if (holds(state)) return state;
  }
}

function respond(url: string, { method, path, headers, body }: Asking): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asking = request(new URL(url), { method, path, headers, agent: false }, resolve);
    asking.on('error', reject);
    asking.end(body);
  });
}

/** A port of 127.0.0.1 that nobody listens on now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('expected a TCP address');
  return address.port;
}
