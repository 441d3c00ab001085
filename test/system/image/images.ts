import { run, runAtExit } from './command.ts';
import { ownContainerName } from './ownNames.ts';

/** An image to build, and the folder it is built from. */
export interface Build {
  readonly context: string;
  readonly tag: string;
  /** @default `Dockerfile` in the context */
  readonly file?: string;
  /** @default the last stage */
  readonly target?: string;
  /** Such as `linux/arm64`. @default this machine's */
  readonly platform?: string;
  /** Build arguments. */
  readonly args?: Readonly<Record<string, string>>;
  /** Folders, or images as `container-image://TAG`, in place of stages, by the stage's name. */
  readonly stages?: Readonly<Record<string, string>>;
}

/** Needs neither a daemon, nor a registry, nor namespaces; a build sees the network of this machine. */
export const ISOLATION = ['--isolation', 'chroot'] as const;

/** Certificate authorities that this machine trusts, for a build that downloads. */
const TRUSTED = ['--volume', '/etc/ssl/certs:/etc/ssl/certs:ro'] as const;

export async function buildImage({
  context,
  tag,
  file,
  target,
  platform,
  args = {},
  stages = {},
}: Build): Promise<void> {
  const options = [
    ...(file === undefined ? [] : ['--file', file]),
    ...(target === undefined ? [] : ['--target', target]),
    ...(platform === undefined ? [] : ['--platform', platform]),
    ...Object.entries(args).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`]),
    ...Object.entries(stages).flatMap(([name, folder]) => ['--build-context', `${name}=${folder}`]),
  ];
  const fixed = [...ISOLATION, ...TRUSTED, '--pull-never', '--layers=false', '--quiet'];
  await run('buildah', ['build', ...fixed, '--tag', tag, ...options, context]);
}

export function removeImageAtExit(tag: string): void {
  runAtExit('buildah', 'rmi', '--force', tag);
}

export async function imageExists(tag: string): Promise<boolean> {
  return (await run('buildah', ['images', '--quiet', '--filter', `reference=${tag}`])) !== '';
}

/** What a host reads in an image. */
export interface ImageConfig {
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  /** `NAME=value` each. */
  readonly Env: readonly string[];
  readonly User: string;
  readonly WorkingDir: string;
  readonly Volumes?: Readonly<Record<string, unknown>>;
}

export async function configOf(tag: string): Promise<ImageConfig> {
  return { Cmd: [], ...(await inspect(tag)).config };
}

/** `amd64` or `arm64`. */
export async function architectureOf(tag: string): Promise<string> {
  return (await inspect(tag)).architecture;
}

async function inspect(
  tag: string,
): Promise<{ readonly config: Omit<ImageConfig, 'Cmd'>; readonly architecture: string }> {
  return JSON.parse(await run('buildah', ['inspect', '--type', 'image', tag])).OCIv1;
}

/** What the image takes unpacked, its base included. */
export async function megabytesOf(tag: string): Promise<number> {
  const container = await makeContainer(tag);
  const root = await run('buildah', ['mount', container]);
  const [kilobytes = ''] = (await run('du', ['--summarize', '--block-size=1000', root])).split('\t');
  return Math.round(Number(kilobytes) / 1000);
}

/** A container of the image, which is removed when this process ends. @returns its name */
export async function makeContainer(tag: string): Promise<string> {
  const container = ownContainerName();
  runAtExit('buildah', 'rm', container);
  await run('buildah', ['from', '--name', container, '--pull-never', tag]);
  return container;
}

/** Runs a shell's lines in a container, as the image's user. @returns what they print */
export async function runInside(container: string, script: string): Promise<string> {
  return run('buildah', ['run', ...ISOLATION, container, '--', 'sh', '-c', script]);
}

/** Copies a file of this machine into a container, with the folders above it. */
export async function copyInto(container: string, file: string, destination: string): Promise<void> {
  await run('buildah', ['copy', '--quiet', container, file, destination]);
}
