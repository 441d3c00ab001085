import { constants } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import pLimit from 'p-limit';
import { fileKey, type ModelFile, type Part, partsOf } from './manifest.ts';
import { readInto, type Source } from './objects.ts';
import type { PartialFolder } from './partialFolder.ts';

/** Each brings 85 to 90 MB/s at most. @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-design-patterns.html */
const PARTS_AT_A_TIME = 16;

/** A part that is not in the folder yet. */
interface MissingPart extends Part {
  readonly file: ModelFile;
  readonly sha256: string;
  /** By which the folder knows it. */
  readonly name: string;
}

export function missingParts(files: readonly ModelFile[], { noted }: PartialFolder): MissingPart[] {
  return files
    .flatMap((file, fileIndex) =>
      partsOf(file.bytes).map((part, index) => ({
        ...part,
        file,
        sha256: file.parts[index] ?? '',
        name: `${fileIndex}:${index}`,
      })),
    )
    .filter(({ name }) => !noted.has(name));
}

/**
 * Fetches parts into the folder, many at a time, each compared with its checksum on the way.
 *
 * @throws Error naming the first object that cannot be read, or is not what was published; nothing is under way then
 */
export async function fetchParts(source: Source, parts: readonly MissingPart[], folder: PartialFolder): Promise<void> {
  const failing = new AbortController();
  const atATime = pLimit(PARTS_AT_A_TIME);
  const fetch = (part: MissingPart) => fetchPart(source, part, folder, failing.signal);
  await Promise.all(parts.map((part) => atATime(() => fetch(part)).catch((error) => failing.abort(error))));
  failing.signal.throwIfAborted();
}

async function fetchPart(source: Source, part: MissingPart, folder: PartialFolder, stop: AbortSignal): Promise<void> {
  const path = join(folder.path, part.file.path);
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT);
  try {
    const key = fileKey(source.uri.folder, part.file.path);
    if (part.file.bytes > 0) await readInto(source, key, part, part.file.bytes, file, stop);
  } finally {
    await file.close();
  }
  await folder.note(part.name);
}
