import { rename, rm, writeFile } from 'node:fs/promises';
import { type ProfileFile, profilePath } from '../../lambda/adapters/onnx/config/profileFile.ts';
import { systemReason } from '../fileErrors.ts';
import type { ProfileReport } from './report.ts';

/**
 * Keeps what was measured beside the model, in place of what was kept before: whole, or not at all.
 *
 * @returns where it lies
 * @throws Error saying why it cannot be written
 */
export async function keepProfile(report: ProfileReport): Promise<string> {
  const path = profilePath(report.measured.path);
  const partial = `${path}.${process.pid}`;
  try {
    await writeFile(partial, `${JSON.stringify(profileFileOf(report), null, 2)}\n`);
    await rename(partial, path);
  } catch (cause) {
    await rm(partial, { force: true }).catch(() => {});
    const reason = systemReason(cause) ?? String(cause);
    throw new Error(
      `${path}: expected a folder that can be written to, got: ${reason}; what was measured is not kept: copy the model ` +
        'elsewhere, or give --no-write',
      { cause },
    );
  }
  return path;
}

function profileFileOf({ measured, recommendation }: ProfileReport): ProfileFile {
  const { path: _, requestBytes: __, ...kept } = measured;
  const { context: ___, ...recommended } = recommendation;
  return { schemaVersion: 1, ...kept, recommendation: recommended };
}
