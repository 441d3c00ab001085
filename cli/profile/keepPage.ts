import { dirname, join } from 'node:path';
import type { ProfileReport } from './report.ts';
import { writeWhole } from './writeWhole.ts';

/** What was found, for people, beside the `.onnx` file. */
export const PAGE_FILE = 'profile.html';

/**
 * Writes the page on a profile beside the model, in place of the one before: whole, or not at all.
 *
 * @returns where it lies
 * @throws Error saying why it cannot be written
 */
export async function keepPage(report: ProfileReport): Promise<string> {
  const path = join(dirname(report.measured.path), PAGE_FILE);
  const { renderPage } = await loadPage(path);
  await writeWhole(path, await renderPage(report));
  return path;
}

/** Loaded when it is needed: what draws the charts is an optional dependency, and takes some tenths of a second. */
async function loadPage(path: string): Promise<typeof import('./page/page.ts')> {
  try {
    return await import('./page/page.ts');
  } catch (cause) {
    if (!isMissing(cause)) throw cause;
    throw new Error(
      `${path}: expected the package vega, which draws the charts, got none; run npm install vega, and not with --omit=optional`,
      { cause },
    );
  }
}

function isMissing(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === 'ERR_MODULE_NOT_FOUND';
}
