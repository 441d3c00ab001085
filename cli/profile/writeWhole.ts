import { rename, rm, writeFile } from 'node:fs/promises';
import { systemReason } from '../fileErrors.ts';

/**
 * Writes a file in place of the one before: whole, or not at all.
 *
 * @throws Error saying why it cannot be written, and what to do
 */
export async function writeWhole(path: string, content: string): Promise<void> {
  const partial = `${path}.${process.pid}`;
  try {
    await writeFile(partial, content);
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
}
