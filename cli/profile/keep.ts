import { type ProfileFile, profilePath } from '../../lambda/onnx/profileFile.ts';
import type { ProfileReport } from './report.ts';
import { writeWhole } from './writeWhole.ts';

/**
 * Keeps what was measured beside the model, in place of what was kept before: whole, or not at all.
 *
 * @returns where it lies
 * @throws Error saying why it cannot be written
 */
export async function keepProfile(report: ProfileReport): Promise<string> {
  const path = profilePath(report.measured.path);
  await writeWhole(path, `${JSON.stringify(profileFileOf(report), null, 2)}\n`);
  return path;
}

function profileFileOf({ measured, recommendation }: ProfileReport): ProfileFile {
  const { path: _, requestBytes: __, ...kept } = measured;
  const { context: ___, ...recommended } = recommendation;
  return { schemaVersion: 1, ...kept, recommendation: recommended };
}
