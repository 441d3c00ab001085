import type { Model } from '../../core/contract/model.ts';
import { partsOf } from '../../core/job/cut.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import type { Compression, Format, JobHead, JobInput, Part, Spec } from '../../core/job/words.ts';

export interface LayOutOptions {
  readonly format: Format;
  readonly compression: Compression;
  readonly spec: Spec;
  readonly model: Model;
  readonly partBytes: number;
  readonly pieceBytes: number;
}

/** How an object is cut, and what of its columns every call must know. */
export interface Layout extends Pick<JobHead, 'columns' | 'inputs'> {
  readonly parts: readonly Part[];
}

/** Reads no more of the input than it must: of lines of JSON one byte, which proves that it is the version meant. */
export async function layOut(storage: JobStorage, input: JobInput, options: LayOutOptions): Promise<Layout> {
  if (input.bytes > 0) await storage.readRange(input, { start: 0, end: 1 });
  return { parts: partsOf(input.bytes, options.partBytes) };
}
