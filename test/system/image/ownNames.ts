import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atExit, run } from './command.ts';

/** Names carry the process they belong to, so that a later one can tell what was left behind from what is in use. */
const PREFIX = 'batchscore-test-';
const OWNER = /^(?:localhost\/)?batchscore-test-[a-z-]+[-:](\d+)-/;

let made = 0;

/** Of a container that this process makes. */
export function ownContainerName(): string {
  return `${PREFIX}container-${process.pid}-${++made}`;
}

/** Of an image that this process builds. */
export function ownTag(name: string): string {
  return `localhost/${PREFIX}${name}:${process.pid}-${++made}`;
}

const shared = tmpdir();

/** Gives this process a folder for all its temporary files, which is deleted when it ends. */
export function useOwnFolder(): void {
  const folder = mkdtempSync(join(shared, `${PREFIX}image-${process.pid}-`));
  process.env.TMPDIR = folder;
  atExit(() => rmSync(folder, { recursive: true, force: true }));
}

/** A folder within that of this process. */
export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), 'folder-'));
}

/** Removes what runs left that were killed: containers, images and folders of processes that are gone. */
export async function removeLeftovers(): Promise<void> {
  const containers: { containername: string }[] = JSON.parse(await run('buildah', ['containers', '--json'])) ?? [];
  const images: { names: string[] | null }[] = JSON.parse(await run('buildah', ['images', '--json'])) ?? [];
  const folders = readdirSync(shared);
  const left = {
    containers: containers.map(({ containername }) => containername).filter(isLeft),
    tags: images.flatMap(({ names }) => names ?? []).filter(isLeft),
    folders: folders.filter(isLeft),
  };
  if (left.containers.length > 0) await run('buildah', ['rm', ...left.containers]);
  if (left.tags.length > 0) await run('buildah', ['rmi', '--force', ...left.tags]);
  for (const folder of left.folders) rmSync(join(shared, folder), { recursive: true, force: true });
}

function isLeft(name: string): boolean {
  const [, owner] = OWNER.exec(name) ?? [];
  return owner !== undefined && !isRunning(Number(owner));
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
