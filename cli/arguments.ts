import { type ParseArgsConfig, parseArgs } from 'node:util';
import { messageOf } from '../lambda/core/contract/failure.ts';

/** What the user typed cannot be understood; the message says what would be. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** @throws UsageError for an option that is not known or lacks its value */
export function parseOptions<T extends NonNullable<ParseArgsConfig['options']>>(args: readonly string[], options: T) {
  return parse({ args: [...args], options, allowPositionals: false, strict: true }).values;
}

/** @throws UsageError for an option that is not known, or other arguments than those named */
export function parseCommand<T extends NonNullable<ParseArgsConfig['options']>>(
  args: readonly string[],
  names: readonly string[],
  options: T,
) {
  const { values, positionals } = parse({ args: [...args], options, allowPositionals: true, strict: true });
  if (positionals.length !== names.length) {
    throw new UsageError(`expected ${names.join(' ')}, got ${positionals.join(' ') || 'nothing'}`);
  }
  return { options: values, positionals };
}

/**
 * @param word what else the option may be
 * @throws UsageError when `text` is not a whole number from `least` to `most`
 */
export function wholeNumber(option: string, text: string, least: number, most: number, word?: string): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  const orWord = word === undefined ? '' : `, or ${word}`;
  throw new UsageError(`${option}: expected a whole number from ${least} to ${most}${orWord}, got '${text}'`);
}

function parse<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config);
  } catch (cause) {
    throw new UsageError(messageOf(cause), { cause });
  }
}

/** Runs a command. What it throws is one readable message and the exit code: 2 for wrong usage, 1 for the rest. */
export async function runCommand(main: (args: readonly string[]) => Promise<number>): Promise<void> {
  process.stdout.on('error', leaveWhenNobodyReads);
  process.once('uncaughtException', failUncaught);
  try {
    process.exitCode = await main(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`batchscore: ${messageOf(error)}\n`);
    if (error instanceof UsageError) process.stderr.write('Run it with --help for the options.\n');
    process.exitCode = error instanceof UsageError ? 2 : 1;
  }
}

/** What escapes a transform or a stream; a stack trace tells a user nothing. */
function failUncaught(error: unknown): void {
  process.stderr.write(`batchscore: ${messageOf(error)}\n`);
  process.exit(1);
}

/** `batchscore … | head`: the reader has seen enough. */
function leaveWhenNobodyReads(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
}
