import { type Failure, failure, preview } from './failure.ts';
import { isObject } from './json.ts';
import type { PayloadPointer } from './payload.ts';

/**
 * The convention of the SQS Extended Client for bodies that lie in S3.
 *
 * @see https://github.com/awslabs/payload-offloading-java-common-lib-for-aws
 */
const POINTER_CLASS = 'software.amazon.payloadoffloading.PayloadS3Pointer';
const OLDER_POINTER_CLASS = 'com.amazon.sqs.javamessaging.MessageS3Pointer';

/** The message attributes beside a pointer, of which a producer sends one: the size of the body in bytes. */
export const POINTER_ATTRIBUTES = ['ExtendedPayloadSize', 'SQSLargePayloadSize'] as const;

/** The body of a message whose payload lies in S3. */
export function pointerBody({ bucket, key }: PayloadPointer): string {
  return JSON.stringify([POINTER_CLASS, { s3BucketName: bucket, s3Key: key }]);
}

/** The pointer in a parsed body, why it is a broken one, or undefined when the body is not a pointer at all. */
export function parsePointer(parsed: unknown): PayloadPointer | Failure | undefined {
  if (!Array.isArray(parsed) || (parsed[0] !== POINTER_CLASS && parsed[0] !== OLDER_POINTER_CLASS)) return undefined;
  const [, location, ...rest] = parsed;
  if (rest.length > 0 || !isObject(location)) {
    return failure(
      'INVALID_POINTER',
      `body[1]: expected {"s3BucketName": …, "s3Key": …} and no more, got ${preview(location)}`,
    );
  }
  const { s3BucketName: bucket, s3Key: key } = location;
  if (typeof bucket !== 'string') {
    return failure('INVALID_POINTER', `body[1].s3BucketName: expected a string, got ${preview(bucket)}`);
  }
  if (typeof key !== 'string') {
    return failure('INVALID_POINTER', `body[1].s3Key: expected a string, got ${preview(key)}`);
  }
  return { bucket, key };
}
