import { Readable, Writable } from 'node:stream';
import { exitCodeOf, type Main } from '../../cli/arguments.ts';
import { batchscore as command } from '../../cli/batchscore.ts';
import type { Finished } from './command.ts';

/**
 * Runs `batchscore` in this process: `await batchscore(['score', 'models/digits', '-'], LINES)`. What depends on the
 * process itself, its working folder, environment, signals or terminal, wants `runScript`.
 *
 * @param stdin what it reads there
 */
export function batchscore(args: readonly string[], stdin = ''): Promise<Finished> {
  return runMain(command, args, stdin);
}

/** The same of another command, such as one of the bench. */
export async function runMain(main: Main, args: readonly string[], stdin = ''): Promise<Finished> {
  const [stdout, stderr] = [createSink(), createSink()];
  const code = await exitCodeOf(main, args, {
    stdin: Readable.from([Buffer.from(stdin)]),
    stdout: stdout.stream,
    stderr: stderr.stream,
  });
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}

function createSink(): { readonly stream: Writable; text(): string } {
  const chunks: Buffer[] = [];
  const stream = new Writable({
    write(chunk, _, done) {
      chunks.push(Buffer.from(chunk));
      done();
    },
  });
  return { stream, text: () => Buffer.concat(chunks).toString() };
}
