import { type FileHandle, open } from 'node:fs/promises';

/** Opens a file of lines to read and to add to, or makes one. A last line that a crash cut short is taken off. */
export async function openForAppending(path: string): Promise<FileHandle> {
  const file = await open(path, 'a+');
  try {
    await cutUnfinishedLine(file);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

const NEWLINE = 10;
const STEP_BYTES = 65_536;

/** Cuts the file after its last newline. */
async function cutUnfinishedLine(file: FileHandle): Promise<void> {
  const { size } = await file.stat();
  const step = Buffer.alloc(STEP_BYTES);
  for (let end = size; end > 0; end -= STEP_BYTES) {
    const start = Math.max(0, end - STEP_BYTES);
    const { bytesRead } = await file.read(step, 0, end - start, start);
    const last = step.subarray(0, bytesRead).lastIndexOf(NEWLINE);
    if (last < 0) continue;
    if (start + last + 1 < size) await file.truncate(start + last + 1);
    return;
  }
  await file.truncate(0);
}
