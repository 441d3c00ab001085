import { Annotations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import type { Batching } from '../base/batching.ts';

/** @see https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html */
const MAX_EVENT_BYTES = 6 * 1024 * 1024;
const MAX_MESSAGE_BYTES = 1_048_576;

/**
 * Lambda calls the function as soon as 6 MB have gathered: a larger batch is never as full as it says. It works, and so
 * it is a warning.
 */
export function warnOfLargeMessages(
  scope: Construct,
  { batchSize }: Batching,
  largestMessageBytes: number | undefined,
): void {
  if (largestMessageBytes === undefined) return;
  const inlineBytes = Math.min(largestMessageBytes, MAX_MESSAGE_BYTES);
  if (batchSize * inlineBytes <= MAX_EVENT_BYTES) return;
  Annotations.of(scope).addWarningV2(
    'batchscore:messageBytes',
    `batchSize: expected at most ${MAX_EVENT_BYTES} bytes in one call, got ${batchSize} × ${inlineBytes} bytes = ` +
      `${batchSize * inlineBytes}, lower batchSize to ${Math.floor(MAX_EVENT_BYTES / inlineBytes)} or send large bodies ` +
      'through the payload bucket',
  );
}
