import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { atExit, run } from './command.ts';
import { configOf, makeContainer } from './images.ts';

/** A container that runs as ECS runs one with a read-only root file system. */
export interface RunningContainer {
  /** The exit code, or that of the signal that ended it; and all that it logged. */
  readonly ended: Promise<{ readonly code: number; readonly log: string }>;
  /** Waits for a line of the log with this text. @returns the line */
  says(text: string): Promise<string>;
  /** The first process, as this machine counts them. */
  firstProcess(): number;
  kill(): Promise<void>;
}

/**
 * Mounts the container's root file system read-only with an empty /tmp, and becomes its command. It stays the first
 * process of its own namespace, where a signal that it does not listen to is ignored.
 */
const BECOME = `set -e
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
exec chroot --userspec="$OWNER" --groups= "$ROOT" env --ignore-environment --chdir="$FOLDER" "$@"`;

/**
 * Starts an image with the environment of the image and this one.
 *
 * @param command in place of the image's own
 */
export async function startContainer(
  tag: string,
  environment: Readonly<Record<string, string>>,
  command?: readonly string[],
): Promise<RunningContainer> {
  const [{ Entrypoint, Cmd, Env, User, WorkingDir }, container] = await Promise.all([
    configOf(tag),
    makeContainer(tag),
  ]);
  const root = await run('buildah', ['mount', container]);
  const variables = [...Env, ...Object.entries(environment).map(([name, value]) => `${name}=${value}`)];
  const own = ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', BECOME, 'sh'];
  const child = spawn('unshare', [...own, ...variables, ...(command ?? [...Entrypoint, ...Cmd])], {
    env: { PATH: process.env.PATH, ROOT: root, OWNER: `${User}:${User}`, FOLDER: WorkingDir },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  atExit(() => child.kill('SIGKILL'));
  const lines: string[] = [];
  const readers = [child.stdout, child.stderr].map((input) => createInterface({ input }));
  for (const reader of readers) reader.on('line', (line) => lines.push(line));
  const ended = once(child, 'close').then(([code, signal]) => ({ code: code ?? signal, log: lines.join('\n') }));
  return {
    ended,
    async says(text) {
      const died = ended.then(({ log }): never => {
        throw new Error(`expected '${text}' from the container, it ended:\n${log}`);
      });
      died.catch(() => {});
      for (;;) {
        const line = lines.find((one) => one.includes(text));
        if (line !== undefined) return line;
        await Promise.race([...readers.map((reader) => once(reader, 'line')), died]);
      }
    },
    firstProcess: () => Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')),
    kill: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
