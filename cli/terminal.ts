import type { Writable } from 'node:stream';
import type { GenericFormatter } from 'cli-progress';
import cliProgress from 'cli-progress';
import { plural } from '../lambda/core/failure.ts';
import { isObject } from '../lambda/core/json.ts';
import { count, duration } from './format.ts';

/**
 * Writes one line to a stream that may be a terminal. All output of commands uses this function or the next one. Line
 * feeds in the text are escaped too, so that a file name or a request cannot add a line.
 */
export function writeLine(stream: Writable, text: string): void {
  stream.write(`${printable(text)}\n`);
}

/** Writes a text of several lines. Text from other sources must pass `printable` first, so that it adds no lines. */
export function writeText(stream: Writable, text: string): void {
  stream.write(printableLines(text));
}

/** Control characters, characters that change the direction of text, and line separators. */
const COMMANDS = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/** Escapes control characters as JSON does, such as `\u001b`. JSON text keeps its meaning. */
export function printable(text: string): string {
  return text.replace(COMMANDS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Escapes each line of a text. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

/** Escapes every text in a value, including names of members. */
export function printableIn<T>(value: T): T {
  return spelled(value) as T;
}

function spelled(value: unknown): unknown {
  if (typeof value === 'string') return printable(value);
  if (Array.isArray(value)) return value.map(spelled);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [printable(name), spelled(member)]));
}

const GAP = '  ';
const MIN_LAST = 20;

/**
 * Formats rows of cells as columns, with numbers aligned right. The last column is wrapped at `width`.
 *
 * @default no wrapping
 */
export function inColumns(rows: readonly (readonly string[])[], width = Number.POSITIVE_INFINITY): string {
  const count = Math.max(...rows.map((cells) => cells.length));
  const columns = Array.from({ length: count }, (_, column) => {
    const cells = rows.map((row) => row[column] ?? '');
    const widest = Math.max(...cells.map(({ length }) => length));
    const isNumeric = rows.length > 1 && cells.slice(1).every((cell) => cell === '' || /^[$\d>]/.test(cell));
    return { widest, pad: (cell: string) => (isNumeric ? cell.padStart(widest) : cell.padEnd(widest)) };
  });
  const before = columns.slice(0, -1).reduce((sum, { widest }) => sum + widest + GAP.length, 0);
  const line = (row: readonly string[]): string => {
    const cells = columns.map(({ pad }, column) => pad(row[column] ?? ''));
    const last = wrapped(cells.pop()?.trimEnd() ?? '', Math.max(MIN_LAST, width - before));
    return [...cells, last.join(`\n${' '.repeat(before)}`)].join(GAP).replace(/ +$/gm, '');
  };
  return rows.map(line).join('\n');
}

/** Splits a text into lines of whole words. A longer word gets its own line. */
export function wrapped(text: string, width: number): string[] {
  if (text.length <= width) return [text];
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

type Figure = (progress: number, value: number, total: number) => string;

const FIGURES = {
  share: (progress) => `${Math.floor(100 * progress)} %`,
  count: (_, value, total) => `${value}/${total}`,
} as const satisfies Readonly<Record<string, Figure>>;

const TITLE_COLUMNS = 12;
const MAX_CELLS = 60;
/** Minimum width of the bar. In less space, only the figure is shown. */
const MIN_CELLS = 5;

/**
 * Shows a progress bar on stderr if that is a terminal that can move its cursor and the total is known. Otherwise it
 * shows nothing. The bar is as wide as the terminal allows, and does not change the terminal's settings.
 *
 * @param figure unit of the figure next to the bar
 */
export function progressBar(title: string, total: number | undefined, figure: keyof typeof FIGURES = 'share') {
  const isShown = total !== undefined && process.stderr.isTTY && process.env.TERM !== 'dumb';
  const bar = new cliProgress.SingleBar({
    format: formatWith(title, FIGURES[figure]),
    // If the library switched wrapping off, a killed process would leave it off.
    linewrap: true,
    clearOnComplete: true,
  });
  if (isShown) bar.start(total, 0);
  return {
    isShown,
    /**
     * @param errors number of errors so far. @default none
     * @param note text after the figure
     */
    update(value: number, errors = 0, note = ''): void {
      if (isShown) bar.update(value, { errors, note });
    },
    /** Removes the bar so that the process can exit. Callers must stop a bar even if an error occurs. */
    stop: (): void => bar.stop(),
  };
}

/** Creates a formatter of the bar's line. It uses the terminal's width at each drawing. */
function formatWith(title: string, figure: Figure): GenericFormatter {
  return (options, { progress, value, total, startTime, maxWidth }, { errors = 0, note = '' } = {}) => {
    // A terminal wraps if its last column is written and more text follows.
    const columns = Math.max(0, maxWidth - 1);
    const seconds = Math.round((Date.now() - startTime) / 1000);
    const before = `${title} `.padEnd(TITLE_COLUMNS);
    const figures = `${figure(progress, value, total)}${counted(errors)}${note}`;
    const after = ` ${figures}  ${cliProgress.Format.TimeFormat(seconds, options, 1)}`;
    const cells = Math.min(MAX_CELLS, columns - before.length - after.length);
    if (cells < MIN_CELLS) return figures.slice(0, columns);
    const done = Math.round(progress * cells);
    return `${before}${'='.repeat(done)}${'-'.repeat(cells - done)}${after}`;
  };
}

function counted(errors: number): string {
  return errors === 0 ? '' : `, ${plural(errors, 'error')}`;
}

interface RowsWritten {
  readonly rows: number;
  readonly errors: number;
  /** Share of the file that these rows represent, from 0 to 1. Undefined if the file's size is unknown. */
  readonly share: number | undefined;
}

const MS_A_LINE = 10_000;

/**
 * Shows the number of rows written, rows per second, and the time left. It is a bar if stderr is a terminal that can
 * move its cursor, otherwise a line every ten seconds.
 *
 * @param before rows that an earlier run wrote
 */
export function rowProgress(title: string, isSized: boolean, before: number, stderr: Writable) {
  const startedAt = performance.now();
  let last: RowsWritten = { rows: before, errors: 0, share: isSized ? 0 : undefined };
  const pace = (): string => {
    const perSecond = ((last.rows - before) * 1000) / Math.max(1, performance.now() - startedAt);
    const { share = 0 } = last;
    const left =
      share > 0 && perSecond > 0 ? `, ${duration((1000 * last.rows * (1 / share - 1)) / perSecond)} left` : '';
    return `, ${count(perSecond)} rows/s${left}`;
  };
  const bar = progressBar(title, isSized ? 1 : undefined);
  const lines = setInterval(() => {
    const share = last.share === undefined ? '' : ` (${FIGURES.share(last.share)})`;
    writeLine(stderr, `${title}: ${plural(last.rows, 'row')}${share}${counted(last.errors)}${pace()}`);
  }, MS_A_LINE).unref();
  if (bar.isShown) clearInterval(lines);
  return {
    update(written: RowsWritten): void {
      last = written;
      bar.update(written.share ?? 0, written.errors, pace());
    },
    stop(): void {
      clearInterval(lines);
      bar.stop();
    },
  };
}

/** Exit codes as shells define them: 128 plus the signal's number. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;

type SignalName = keyof typeof EXIT_CODES;

const SIGNALS: readonly SignalName[] = ['SIGINT', 'SIGTERM'];

/**
 * Maximum time between the two signals of one key press. The terminal signals the process, and `npm run` forwards
 * Ctrl-C to it again.
 */
const SAME_PRESS_MS = 200;

/**
 * Maximum time to finish. It is the usual wait of service managers before they kill a process. A model run may never
 * end.
 */
const FINISH_LIMIT_MS = 10_000;

/**
 * Lets a command finish its work after the first SIGINT or SIGTERM, for at most `FINISH_LIMIT_MS`. The next signal has
 * its default effect: the kernel ends the process.
 *
 * @param finishing description of the work to finish, printed if it takes a moment
 */
export function listenForInterruption(finishing: string, onInterrupt: () => void) {
  const interrupted = new AbortController();
  let exitCode: number | undefined;
  let samePress: NodeJS.Timeout | undefined;
  let outOfTime: NodeJS.Timeout | undefined;
  const listener = (name: SignalName): void => {
    if (exitCode !== undefined) return;
    const code = EXIT_CODES[name];
    exitCode = code;
    samePress = setTimeout(letNextOneEnd, SAME_PRESS_MS).unref();
    outOfTime = setTimeout(() => {
      process.stderr.write(`stopped after ${FINISH_LIMIT_MS / 1000} s without finishing ${finishing}\n`);
      process.exit(code);
    }, FINISH_LIMIT_MS).unref();
    onInterrupt();
    interrupted.abort();
  };
  const stopListening = onSignals(listener);
  const letNextOneEnd = (): void => {
    stopListening();
    process.stderr.write(`finishing ${finishing}; Ctrl-C again leaves at once\n`);
  };
  /** Signal that the first SIGINT or SIGTERM aborts. */
  const { signal }: { readonly signal: AbortSignal } = interrupted;
  /** Declares that nothing is left to finish. The next signal has its default effect. */
  const finished = (): void => {
    clearTimeout(samePress);
    clearTimeout(outOfTime);
    // The second signal of one key press may follow. Its default effect would end the process before the exit code is
    // set.
    if (exitCode === undefined) stopListening();
  };
  return {
    signal,
    /** Returns the exit code of the process after a signal, or undefined before. */
    exitCode: (): number | undefined => exitCode,
    finished,
  };
}

/**
 * Prints a sentence at the first SIGINT or SIGTERM before the process ends. It is for commands with nothing to finish.
 *
 * @returns a function to call at the end of the work
 */
export function sayWhenInterrupted(sentence: string): () => void {
  const stopListening = onSignals((name) => {
    stopListening();
    process.stderr.write(`${process.stderr.isTTY ? '\n' : ''}${sentence}\n`);
    process.kill(process.pid, name);
  });
  return stopListening;
}

/** Calls a function for each SIGINT and SIGTERM. @returns a function that ends this */
function onSignals(listener: (name: SignalName) => void): () => void {
  for (const name of SIGNALS) process.on(name, listener);
  return () => {
    for (const name of SIGNALS) process.removeListener(name, listener);
  };
}
