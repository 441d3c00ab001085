import { open } from 'node:fs/promises';
import type { Part } from '../../lambda/aws/modelManifest.ts';

/** A part of a file, or what there is of it. */
export async function readPart(path: string, { start, end }: Part): Promise<Buffer> {
  const file = await open(path);
  try {
    const part = Buffer.allocUnsafe(end - start);
    let got = 0;
    for (let read = -1; got < part.length && read !== 0; got += read) {
      read = (await file.read(part, got, part.length - got, start + got)).bytesRead;
    }
    return part.subarray(0, got);
  } finally {
    await file.close();
  }
}
