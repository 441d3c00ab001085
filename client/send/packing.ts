import { MOST_REQUESTS_PER_MESSAGE, type RequestsPerMessage } from '../base/requestsPerMessage.ts';

/** What one message may hold. */
export interface Packing {
  /** Most requests. */
  readonly requests: number;
  /** Most bytes of their bodies together; a larger request has a message of its own. */
  bytes(): number;
}

/** One request a message. */
export const ALONE: Packing = { requests: 1, bytes: () => 0 };

/** SQS bills every 64 KiB as one request. */
const BILLED_BYTES = 65_536;
/** A packed body in the payload bucket: well below what a deployment reads by default. */
const OFFLOADED_BYTES = 4 * 1024 * 1024;

export interface PackingOptions {
  readonly payloadBucket: string | undefined;
  /** The most that the request queue takes in a message, as far as is known now. */
  readonly maxBytes: () => number;
}

/** `fill` is as many requests as SQS bills as one. A number of them goes to the payload bucket where it has to. */
export function packingOf(perMessage: RequestsPerMessage, { payloadBucket, maxBytes }: PackingOptions): Packing {
  if (perMessage === 1) return ALONE;
  if (perMessage === 'fill') {
    return { requests: MOST_REQUESTS_PER_MESSAGE, bytes: () => Math.min(BILLED_BYTES, maxBytes()) };
  }
  const bytes = payloadBucket === undefined ? maxBytes : () => OFFLOADED_BYTES;
  return { requests: perMessage, bytes };
}
