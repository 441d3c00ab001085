import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { hasCode, messageOf } from '../lambda/core/failure.ts';
import { wholeNumberIn } from '../lambda/core/limits.ts';
import { nearestName } from '../lambda/core/wrongValue.ts';
import type { Spec } from '../lambda/jobs/jobTypes.ts';
import { expandColumns, isSeparator, keptColumns, parseCell } from '../lambda/jobs/rowRequests.ts';
import { walkModels } from '../lambda/onnx/findModels.ts';
import { writeLine, writeText } from './terminal.ts';

/** Invalid usage. The message says what the command expects. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

type Options = NonNullable<ParseArgsConfig['options']>;

/** Values of options as `parseOptions` returns them. */
export type Values<T extends Options> = ReturnType<typeof parseOptions<T>>;

/** @throws UsageError for an unknown option, or an option without its value */
export function parseOptions<T extends Options>(args: readonly string[], options: T) {
  return parse({ args: [...args], options, allowPositionals: false, strict: true }).values;
}

/** @throws UsageError for an unknown option, or for arguments other than the named ones */
export function parseCommand<T extends Options>(args: readonly string[], names: readonly string[], options: T) {
  const { values, positionals } = parse({ args: [...args], options, allowPositionals: true, strict: true });
  if (positionals.length !== names.length || positionals.includes('')) {
    const got = positionals.map((text) => text || "''").join(' ');
    throw new UsageError(`expected ${names.join(' ')}, got ${got || 'nothing'}`);
  }
  return { options: values, positionals };
}

/** @throws UsageError if `text` is given and not a whole number from `min` to `max` */
export function wholeNumber(option: string, text: string, min: number, max: number): number;
export function wholeNumber(option: string, text: string | undefined, min: number, max: number): number | undefined;
export function wholeNumber(option: string, text: string | undefined, min: number, max: number): number | undefined {
  if (text === undefined) return undefined;
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new UsageError(`${option}: expected ${wholeNumberIn({ min, max })}, got '${text}'`);
}

export function asksForHelp(args: readonly string[]): boolean {
  return args.includes('--help') || args.includes('-h');
}

/**
 * Checks a name that the user typed, such as a command's.
 *
 * @param what kind of name, such as `a command`
 * @throws UsageError for an unknown name
 */
export function knownName<T extends string>(what: string, name: string | undefined, known: readonly T[]): T {
  const found = known.find((one) => one === name);
  if (found !== undefined) return found;
  const got = name === undefined ? 'none' : `'${name}'`;
  throw new UsageError(`expected ${what}, ${known.join(', ')}, got ${got}${hint(name ?? '', known)}`);
}

function hint(name: string, known: readonly string[]): string {
  const nearest = nearestName(name, known);
  return nearest === undefined ? '' : `; did you mean ${nearest}?`;
}

function parse<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  let parsed: ReturnType<typeof parseArgs<T>>;
  try {
    parsed = parseArgs(config);
  } catch (cause) {
    throw new UsageError(inOurWords(cause, config.options ?? {}), { cause });
  }
  // An option is empty if a shell expands "$OUT" while OUT is not set.
  const empty = Object.entries(parsed.values).find(([, value]) => value === '')?.[0];
  if (empty !== undefined) throw new UsageError(`--${empty}: expected a value, got an empty text`);
  return parsed;
}

/** @see https://nodejs.org/api/errors.html#err_parse_args_invalid_option_value and the two after it */
function inOurWords(error: unknown, options: Options): string {
  const message = messageOf(error);
  const [, quoted = ''] = /'([^' ]+)/.exec(message) ?? [];
  if (hasCode(error, 'ERR_PARSE_ARGS_UNKNOWN_OPTION')) {
    const known = Object.keys(options).map((name) => `--${name}`);
    return `expected an option of this command, got ${quoted}${hint(quoted, known)}`;
  }
  if (hasCode(error, 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL')) return `expected options alone, got '${quoted}'`;
  if (!hasCode(error, 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE')) return message;
  if (options[quoted.replace(/^-+/, '')]?.type === 'boolean') return `${quoted}: expected no value, got one`;
  const dash = message.includes('ambiguous') ? `; one that begins with - is written ${quoted}=VALUE` : '';
  return `${quoted}: expected a value, got none${dash}`;
}

/** Streams that a command reads and writes: the process's own, or those of a caller. */
export interface Streams {
  readonly stdin: Readable;
  readonly stdout: Writable & { readonly columns?: number; readonly isTTY?: boolean };
  readonly stderr: Writable;
}

/** Command as a function. @returns its exit code */
export type Main = (args: readonly string[], streams: Streams) => Promise<number>;

/**
 * Runs a command with the arguments, streams and exit code of this process.
 *
 * @param help text to print if the user asks for it
 */
export async function runCommand(main: Main, help?: string): Promise<void> {
  process.stdout.on('error', leaveWhenNobodyReads);
  process.once('uncaughtException', failUncaught);
  const args = process.argv.slice(2);
  if (help !== undefined && asksForHelp(args)) writeText(process.stdout, help);
  else process.exitCode = await exitCodeOf(main, args, process);
}

/** Runs a command and prints an error as one message. @returns the exit code: 2 for wrong usage, 1 for other errors */
export async function exitCodeOf(main: Main, args: readonly string[], streams: Streams): Promise<number> {
  try {
    return await main(args, streams);
  } catch (error) {
    writeLine(streams.stderr, `batchscore: ${messageOf(error).trimEnd()}`);
    if (!(error instanceof UsageError)) return 1;
    writeLine(streams.stderr, 'Run it with --help for the options.');
    return 2;
  }
}

/** Prints an error that a transform or a stream did not catch. A user cannot use its stack trace. */
function failUncaught(error: unknown): void {
  writeLine(process.stderr, `batchscore: ${messageOf(error).trimEnd()}`);
  process.exit(1);
}

/** Exit code of a process that SIGPIPE ends. */
const NOBODY_READS = 141;

/** Ends the process if the reader of stdout closes the pipe, as in `batchscore … | head`. */
function leaveWhenNobodyReads(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
  process.exit(NOBODY_READS);
}

export const COLUMN_OPTIONS = {
  inputs: { type: 'string', multiple: true },
  keep: { type: 'string' },
  separator: { type: 'string' },
  missing: { type: 'string' },
} as const;

/** @throws UsageError if a value does not name columns */
export function columnSpec({ inputs, keep, separator, missing }: Values<typeof COLUMN_OPTIONS>) {
  if (missing !== undefined && parseCell(missing) === undefined) {
    throw new UsageError(
      `--missing: expected what an empty cell becomes, nan, a number, true or false, got '${missing}'`,
    );
  }
  const columns = inputs?.map(inputOf);
  const [twice] = (columns ?? []).map(([name]) => name).filter((name, at, all) => all.indexOf(name) !== at);
  if (twice !== undefined) {
    throw new UsageError(
      `--inputs: expected each input once, got ${twice} twice; name its columns in one ${twice}=A,B`,
    );
  }
  return {
    inputs: columns && Object.fromEntries(columns),
    keep: keep === undefined ? undefined : columnsOf('--keep', keep, keptColumns),
    separator: separator === undefined ? undefined : separatorOf(separator),
    missing,
  } satisfies Spec;
}

function separatorOf(text: string): string {
  const separator = text === 'tab' || text === '\\t' ? '\t' : text;
  if (isSeparator(separator)) return separator;
  throw new UsageError(`--separator: expected one character, such as ';', or tab, got '${text}'`);
}

/** @throws UsageError if the value is unknown */
export function oneOf<T extends string>(option: string, text: string | undefined, known: readonly T[]): T | undefined {
  const found = known.find((one) => one === text);
  if (text === undefined || found !== undefined) return found;
  throw new UsageError(`${option}: expected one of ${known.join(', ')}, got '${text}'`);
}

function inputOf(text: string): [string, string[]] {
  const [, input, columns] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (input === undefined || columns === undefined) {
    throw new UsageError(`--inputs: expected INPUT=COLUMNS, such as image=p0..p63, got '${text}'`);
  }
  return [input, columnsOf('--inputs', columns)];
}

function columnsOf(option: string, text: string, read = expandColumns): string[] {
  try {
    return read(text.split(','));
  } catch (cause) {
    throw new UsageError(`${option}: ${messageOf(cause)}`, { cause });
  }
}

/**
 * Returns the path to a model: the model of that name in the repository, or else `name` if it is a path. A folder in the
 * working directory that has the name of a model is given as `./NAME`.
 *
 * @param models the model repository
 * @throws Error if neither exists
 */
export function modelPath(name: string, models: string): string {
  const inRepository = join(models, name);
  const isBareName = name === basename(name) && !name.startsWith('.');
  if (isBareName && existsSync(inRepository)) return inRepository;
  if (existsSync(name)) return name;
  if (existsSync(inRepository)) return inRepository;
  const names = existsSync(models) ? walkModels(models).map((model) => model.name) : [];
  const isPath = /[/\\]|\.onnx$/.test(name);
  const folder = dirname(name);
  const others = isPath && statSync(folder, { throwIfNoEntry: false })?.isDirectory() ? readdirSync(folder) : [];
  const nearest = nearestName(basename(name), isPath ? others : names);
  const listed = names.length === 0 ? 'which has none' : names.join(', ');
  throw new Error(
    `${name}: expected a model folder, a .onnx file or a model of ${models} (${listed}), got none of these` +
      (nearest === undefined ? '; check the name' : `; did you mean ${isPath ? join(folder, nearest) : nearest}?`),
  );
}

/** Paths from the source and from the compiled file. */
const PLACES = ['../package.json', '../../package.json'];

export function ownVersion(): string {
  for (const place of PLACES) {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(place, import.meta.url), 'utf8'));
      if (name === 'batchscore') return version;
    } catch {}
  }
  return 'unknown';
}
