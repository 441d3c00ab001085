import { describeError } from '../../lambda/aws/awsError.ts';
import { isFailure } from '../../lambda/core/failure.ts';
import { liesUnder } from '../../lambda/core/places.ts';
import { type PayloadPointer, parsePointer } from '../../lambda/core/pointer.ts';
import { ScoringError } from '../base/errors.ts';
import type { PayloadSource } from '../base/payloads.ts';
import { decodeResult, invalidResult, type ScoringResult } from './result.ts';

/** A stored result, read. */
export interface ReadResult {
  readonly result: ScoringResult;
  /** False where its payload could not be fetched: what is stored is the only trace of it and must be kept. */
  readonly complete: boolean;
}

/** Reads what a result store holds under a message ID, its payload included. Never throws because of one result. */
export type ReadStored = (messageId: string, stored: string) => Promise<ReadResult>;

/** @param payloads undefined in a deployment without a payload bucket */
export function createReader(payloads: PayloadSource | undefined): ReadStored {
  return async (messageId, stored) => {
    const parsed = parse(messageId, stored);
    if ('invalid' in parsed) return complete(parsed.invalid);
    const pointer = parsePointer(parsed.document);
    if (pointer === undefined) return complete(decodeResult(messageId, parsed.document));
    if (isFailure(pointer)) return complete(invalidResult(messageId, pointer.message));
    return await readPayload(messageId, pointer, payloads);
  };
}

function complete(result: ScoringResult): ReadResult {
  return { result, complete: true };
}

function parse(messageId: string, text: string): { document: unknown } | { invalid: ScoringResult } {
  try {
    return { document: JSON.parse(text) };
  } catch {
    return { invalid: invalidResult(messageId, `got ${text.length} characters that are not JSON`) };
  }
}

async function readPayload(
  messageId: string,
  pointer: PayloadPointer,
  payloads: PayloadSource | undefined,
): Promise<ReadResult> {
  if (payloads?.bucket !== pointer.bucket) {
    const own = payloads === undefined ? 'none is configured' : `payloadBucket is '${payloads.bucket}'`;
    return unavailable(messageId, `it lies in the bucket '${pointer.bucket}', and ${own}; set payloadBucket`);
  }
  if (!liesUnder(payloads.resultKeys, pointer.key)) {
    const own = `results lie under '${payloads.resultKeys}'`;
    return unavailable(messageId, `it lies at '${pointer.key}' in the payload bucket, and ${own}; set payloadPrefix`);
  }
  try {
    const parsed = parse(messageId, await payloads.get(pointer));
    return complete('invalid' in parsed ? parsed.invalid : decodeResult(messageId, parsed.document));
  } catch (cause) {
    return unavailable(
      messageId,
      `s3://${pointer.bucket}/${pointer.key} could not be read: ${describeError(cause)}`,
      cause,
    );
  }
}

function unavailable(messageId: string, reason: string, cause?: unknown): ReadResult {
  const message = `the result is too large for its store: ${reason}`;
  const error = new ScoringError('RESULT_UNAVAILABLE', message, { messageId, cause });
  return { result: { messageId, error }, complete: false };
}
