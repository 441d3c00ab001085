import type { Failure } from './failure.ts';

/** Where a body that was too large for SQS lies. */
export interface PayloadPointer {
  readonly bucket: string;
  readonly key: string;
}

/** Reads bodies that were too large for SQS: only from the deployment's payload bucket, and there only requests. */
export interface PayloadReader {
  /**
   * The text of the object, or why there is none: another bucket or a key of no request (INVALID_POINTER), no such
   * object (PAYLOAD_NOT_FOUND), larger than allowed (PAYLOAD_TOO_LARGE), or S3 out of reach (PAYLOAD_UNAVAILABLE, transient).
   */
  read(pointer: PayloadPointer, options: PayloadReadOptions): Promise<string | Failure>;
}

export interface PayloadReadOptions {
  /** Waits for memory for so many bytes, the size that S3 says. Called once, before the first of them is read. */
  readonly admit: (bytes: number) => Promise<void>;
  readonly signal: AbortSignal;
}
