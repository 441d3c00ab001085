import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { REPOSITORY } from './command.ts';

export const MANIFEST = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8'));

export const LOWEST_MAJOR = Number(/^>=(\d+)$/.exec(MANIFEST.engines.node)?.[1]);
/** The lowest Node that the manifest allows. */
export const LOWEST = `${LOWEST_MAJOR}.0.0`;
export const TOO_LOW = `${LOWEST_MAJOR - 1}.9.0`;

/** The environment in which this Node, and npm with it, takes itself for another. */
export function pretendingToBe(version: string): NodeJS.ProcessEnv {
  const pretend =
    `Object.defineProperty(process,'version',{value:'v${version}'});` +
    `Object.defineProperty(process.versions,'node',{value:'${version}'})`;
  return { ...process.env, NODE_OPTIONS: `--import data:text/javascript,${pretend}` };
}

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a process ended, be it well or not. */
export async function outcomeOf(running: Promise<{ stdout: string; stderr: string }>): Promise<Ended> {
  return await running.then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: Ended) => ({ code, stdout, stderr }),
  );
}
