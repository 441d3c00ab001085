import type { Span } from './cut.ts';
import type { JobInput } from './words.ts';

/** The one bucket of jobs. What fails for a while is tried again beneath; what is thrown ends the call. */
export interface JobStorage {
  /**
   * Bytes of the version that the job was started for.
   *
   * @throws JobError INPUT_CHANGED or INPUT_NOT_FOUND when another one lies there, or none
   */
  readRange(input: JobInput, span: Span): Promise<Uint8Array>;
  /** All bytes of it, in order. @throws JobError as above */
  readAll(input: JobInput): Promise<AsyncIterable<Uint8Array>>;
  /** An object's text; undefined when there is none. */
  get(key: string): Promise<string | undefined>;
  put(key: string, body: string | Uint8Array): Promise<void>;
  /** Puts an object with a few words about it, unless there is one of that key. @returns whether it was put */
  putNew(key: string, body: Uint8Array, about: string): Promise<boolean>;
  /** What {@link putNew} was told about an object, and how large it is; undefined when there is none. */
  look(key: string): Promise<{ readonly about: string; readonly bytes: number } | undefined>;
  /** Without one it does nothing. */
  remove(key: string): Promise<void>;
  /** Objects whose keys begin with `prefix`, in the order of their keys. */
  list(prefix: string): AsyncIterable<{ readonly key: string; readonly bytes: number }>;
}
