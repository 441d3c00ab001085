import type { Writable } from 'node:stream';
import type { GenericFormatter } from 'cli-progress';
import cliProgress from 'cli-progress';
import { plural } from '../lambda/core/failure.ts';
import { isObject } from '../lambda/core/json.ts';
import { count, duration } from './format.ts';

/**
 * Writes one line to what may be a terminal. All that commands print goes through this function or the next one. A line
 * feed in the text is spelled out too: whoever wrote a file name or a request cannot add a line.
 */
export function writeLine(stream: Writable, text: string): void {
  stream.write(`${printable(text)}\n`);
}

/** Writes a text of several lines. What others wrote in it has passed `printable`, so that all of its lines are ours. */
export function writeText(stream: Writable, text: string): void {
  stream.write(printableLines(text));
}

/** The control characters of a terminal, what turns the direction of a text, and the separators of lines. */
const COMMANDS = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/** Spells out what a terminal takes for a command as JSON does, such as `\u001b`. JSON keeps its meaning. */
export function printable(text: string): string {
  return text.replace(COMMANDS, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Does so in each line of a text. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

/** Does so in every text of a value, names of members included. */
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
/** The last column is not broken into less. */
const MIN_LAST = 20;

/** Lays rows of cells out in columns, numbers to the right. The last column is wrapped at `width`. @default no wrapping */
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

/** Cuts a text into lines of whole words. A longer word has a line of its own. */
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

interface ProgressBar {
  readonly isShown: boolean;
  /**
   * @param errors so far @default none
   * @param note shown behind the figure
   */
  update(value: number, errors?: number, note?: string): void;
  /** Clears the bar away and lets the process end. Whoever shows one stops it, whatever happens in between. */
  stop(): void;
}

type Figure = (progress: number, value: number, total: number) => string;

const FIGURES = {
  share: (progress) => `${Math.floor(100 * progress)} %`,
  count: (_, value, total) => `${value}/${total}`,
} as const satisfies Readonly<Record<string, Figure>>;

const TITLE_COLUMNS = 12;
const MAX_CELLS = 60;
/** A shorter bar says nothing: the figure stands alone. */
const MIN_CELLS = 5;

/**
 * A progress bar on stderr where that is a terminal that can move its cursor, and the total is known; nothing elsewhere.
 * It is as wide as the terminal allows, and leaves the terminal's settings as they are.
 *
 * @param figure shown beside the bar
 */
export function progressBar(
  title: string,
  total: number | undefined,
  figure: keyof typeof FIGURES = 'share',
): ProgressBar {
  const canMove = process.stderr.isTTY && process.env.TERM !== 'dumb';
  if (total === undefined || !canMove) return { isShown: false, update: () => {}, stop: () => {} };
  const bar = new cliProgress.SingleBar({
    format: formatWith(title, FIGURES[figure]),
    // Wrapping that is switched off must be switched on again, which nobody does for a process that is killed.
    linewrap: true,
    clearOnComplete: true,
  });
  bar.start(total, 0);
  return {
    isShown: true,
    update: (value, errors = 0, note = '') => bar.update(value, { errors, note }),
    stop: () => bar.stop(),
  };
}

/** The line that is shown. It is made anew for each drawing, with the width that the terminal then has. */
function formatWith(title: string, figure: Figure): GenericFormatter {
  return (options, { progress, value, total, startTime, maxWidth }, { errors = 0, note = '' }: BarPayload = {}) => {
    // A terminal wraps once its last column is written and something follows.
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

interface BarPayload {
  readonly errors?: number;
  readonly note?: string;
}

function counted(errors: number): string {
  return errors === 0 ? '' : `, ${plural(errors, 'error')}`;
}

/** Rows of a file that are written. */
export interface RowsWritten {
  readonly rows: number;
  readonly errors: number;
  /** Share of the file that these rows are, from 0 to 1. Undefined if its size is unknown. */
  readonly share: number | undefined;
}

interface RowProgress {
  update(written: RowsWritten): void;
  stop(): void;
}

const MS_A_LINE = 10_000;

/**
 * Shows how many rows are written, rows a second and the time left: as a bar where stderr is a terminal that can move its
 * cursor, else as a line every ten seconds.
 *
 * @param before rows that an earlier run has written
 */
export function rowProgress(title: string, isSized: boolean, before: number, stderr: Writable): RowProgress {
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
    update(written) {
      last = written;
      bar.update(written.share ?? 0, written.errors, pace());
    },
    stop() {
      clearInterval(lines);
      bar.stop();
    },
  };
}

/** The exit codes that shells know: 128 and the signal's number. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;

type SignalName = keyof typeof EXIT_CODES;

const SIGNALS: readonly SignalName[] = ['SIGINT', 'SIGTERM'];

/** `npm run` passes Ctrl-C on to a process that the terminal has told already: the two come as one. */
const SAME_PRESS_MS = 200;

/** As long as a service manager usually waits before it kills: a run of a model may have no end. */
const FINISH_LIMIT_MS = 10_000;

/** That a command was told to end. */
interface Interruption {
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
  /** Of the process once it was told; undefined before. */
  exitCode(): number | undefined;
  /** Tells that there is nothing left to finish: the next signal has its default effect. */
  finished(): void;
}

/**
 * Lets a command finish what is under way on the first SIGINT or SIGTERM, for `FINISH_LIMIT_MS` at most. The next one has
 * its default effect: the kernel ends the process.
 *
 * @param finishing what is being finished, said when that takes a moment
 */
export function listenForInterruption(finishing: string, onInterrupt: () => void): Interruption {
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
  const stopListening = (): void => {
    for (const name of SIGNALS) process.removeListener(name, listener);
  };
  const letNextOneEnd = (): void => {
    stopListening();
    process.stderr.write(`finishing ${finishing}; Ctrl-C again leaves at once\n`);
  };
  for (const name of SIGNALS) process.on(name, listener);
  const finished = (): void => {
    clearTimeout(samePress);
    clearTimeout(outOfTime);
    // The second of one press may be on its way: its default effect would come before the exit code.
    if (exitCode === undefined) stopListening();
  };
  return { signal: interrupted.signal, exitCode: () => exitCode, finished };
}

/**
 * Has the first SIGINT or SIGTERM say a sentence before it ends the process: for what has nothing to finish.
 *
 * @returns to call once it is through
 */
export function sayWhenInterrupted(sentence: string): () => void {
  const listener = (name: SignalName): void => {
    stopListening();
    process.stderr.write(`${process.stderr.isTTY ? '\n' : ''}${sentence}\n`);
    process.kill(process.pid, name);
  };
  const stopListening = (): void => {
    for (const name of SIGNALS) process.removeListener(name, listener);
  };
  for (const name of SIGNALS) process.on(name, listener);
  return stopListening;
}
