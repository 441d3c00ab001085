import { type Failure, failure, type Outage, PAYLOAD_BUCKET, preview } from '../../core/failure.ts';
import type { PayloadPointer } from '../../core/pointer.ts';

export function anotherBucket(bucket: string, pointer: PayloadPointer): Failure {
  return failure(
    'INVALID_POINTER',
    `body[1].s3BucketName: expected the deployment's payload bucket ${preview(bucket)}, got ${preview(pointer.bucket)}`,
  );
}

export function noRequest(requests: string, { key }: PayloadPointer): Failure {
  return failure(
    'INVALID_POINTER',
    `body[1].s3Key: expected a key that begins with "${requests}", got ${preview(key)}; upload the body there`,
  );
}

export function notFound({ key }: PayloadPointer): Failure {
  return failure(
    'PAYLOAD_NOT_FOUND',
    `s3 object ${preview(key)}: expected it in the payload bucket, got none; keep it until its result is there`,
  );
}

export function tooLarge({ key }: PayloadPointer, maxBytes: number, got: string): Failure {
  return failure(
    'PAYLOAD_TOO_LARGE',
    `s3 object ${preview(key)}: expected at most ${maxBytes} bytes, got ${got}; send several requests`,
  );
}

/** What is not UTF-8 is not JSON either. @see https://www.rfc-editor.org/rfc/rfc8259#section-8.1 */
export function notText({ key }: PayloadPointer): Failure {
  return failure(
    'INVALID_JSON',
    `s3 object ${preview(key)}: expected JSON in UTF-8, got bytes that are not; upload the request's text uncompressed`,
  );
}

export function unavailable({ key }: PayloadPointer, reason: string, kind?: Outage['kind']): Failure {
  const message = `s3 object ${preview(key)}: expected to read it, got ${reason}`;
  return failure('PAYLOAD_UNAVAILABLE', message, kind && { of: PAYLOAD_BUCKET, kind });
}
