import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { REPOSITORY } from './command.ts';

export interface TerminalOptions {
  readonly columns?: number;
  /** What kind of terminal it is. @default xterm */
  readonly term?: string;
}

/** A script of the repository that runs in a terminal of its own. */
export interface InTerminal {
  /** What the terminal was sent so far: stdout and stderr together, control sequences included. */
  output(): string;
  /** Waits until what the terminal was sent matches. */
  shows(pattern: RegExp): Promise<void>;
  /** Presses keys, `\x03` for Ctrl-C. */
  press(keys: string): void;
  /** Makes the window as wide. */
  resize(columns: number): void;
  /** Closes the window, which ends what still runs in it. */
  close(): void;
  /** @returns the exit code; of a process that a signal ended, 128 and its number, as shells have it */
  ended(): Promise<number | null>;
}

/** Runs a script in a pseudo-terminal, which the program `script` of util-linux makes. */
export function startInTerminal(
  scriptFile: string,
  args: readonly string[],
  { columns = 80, term = 'xterm' }: TerminalOptions = {},
): InTerminal {
  assertScriptIsThere();
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
    output: () => output,
    shows: (pattern) => untilMatched(child, () => output, pattern),
    press: (keys) => void child.stdin.write(keys),
    resize(toColumns) {
      const terminal = /^(\/dev\/\S+)/.exec(output)?.[1] ?? '';
      spawnSync('stty', ['-F', terminal, 'cols', String(toColumns)]);
    },
    close: () => void child.kill(),
    async ended() {
      const [code] = await closed;
      return code;
    },
  };
}

function assertScriptIsThere(): void {
  if (spawnSync('script', ['--version']).status === 0) return;
  throw new Error("expected the program 'script' of util-linux, to make a terminal, got none; install bsdutils");
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

/** Whether each setting of the terminal that was switched off is on again: line wrap and the cursor. */
export function isRestored(output: string): boolean {
  return [7, 25].every((mode) => output.lastIndexOf(`\x1b[?${mode}h`) >= output.lastIndexOf(`\x1b[?${mode}l`));
}

/** Columns that the widest of the lines takes which were drawn, one over the other or one below the other. */
export function widestLine(output: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what a terminal is sent
  const withoutSequences = output.replaceAll(/\x1b(\[[?\d;]*[A-Za-z]|\d)/g, '\r');
  return Math.max(...withoutSequences.split(/[\r\n]/).map((line) => (line.startsWith('/dev/') ? 0 : line.length)));
}
