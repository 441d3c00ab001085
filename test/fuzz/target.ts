import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Random } from '../../bench/workload/random.ts';

/** A way into the product that takes what others wrote. Every input is a text, so that a finding can be made smaller. */
export interface Target {
  make(random: Random): string;
  /** What is wrong with how inputs were taken that came together: a sentence, or undefined, for each. */
  check(inputs: readonly string[], random: Random): Promise<readonly (string | undefined)[]>;
  /** Lines at the beginning of an input that are no part of what is hostile. @default none */
  readonly headLines?: number;
  /** How often each answer came. */
  readonly answers?: Readonly<Record<string, number>>;
  /** It may take its time, and keep memory: opening models does both. @default false */
  readonly isUnlimited?: boolean;
  close?(): Promise<void>;
}

export async function putFiles(folder: string, files: Readonly<Record<string, Uint8Array | string>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
  }
}
