import { type DecodeLimits, decodeRequest } from './decodeRequest.ts';
import { type Failure, failure, isFailure, preview } from './failure.ts';
import type { ModelRepository } from './model.ts';
import type { PayloadPointer, PayloadReader } from './payload.ts';
import { parsePointer } from './pointer.ts';
import type { DecodedBody, RefusedRequest, ScoringRequest } from './request.ts';

export interface DecodeDependencies {
  readonly models: ModelRepository;
  /** Where bodies too large for SQS are read from; undefined in a deployment without a payload bucket. */
  readonly payloads?: PayloadReader | undefined;
  readonly limits: DecodeLimits;
}

const WHOLE_BODY = 'body';

/**
 * A record's body, decoded and proved valid. What is wrong with a request is in the answer, never thrown.
 *
 * @see docs/message-format.md
 */
export async function decodeBody(body: string, deps: DecodeDependencies, signal: AbortSignal): Promise<DecodedBody> {
  const parsed = await parseBody(body, deps, signal);
  if (isFailure(parsed)) return { packed: false, requests: [{ id: undefined, failure: parsed }] };
  if (!Array.isArray(parsed.value)) {
    return { packed: false, requests: [await decodeRequest(parsed.value, WHOLE_BODY, deps.models, deps.limits)] };
  }
  if (parsed.value.length === 0) {
    const empty = failure('INVALID_REQUEST', 'body: expected at least one request in a packed message, got none');
    return { packed: false, requests: [{ id: undefined, failure: empty }] };
  }
  const requests: (ScoringRequest | RefusedRequest)[] = [];
  for (const [index, value] of parsed.value.entries()) {
    requests.push(await decodeRequest(value, `[${index}]`, deps.models, deps.limits));
  }
  return { packed: true, requests };
}

interface Parsed {
  readonly value: unknown;
}

/** The JSON of the body, or of the object it points to. */
async function parseBody(
  body: string,
  { payloads }: DecodeDependencies,
  signal: AbortSignal,
): Promise<Parsed | Failure> {
  const parsed = parseJson(body, WHOLE_BODY);
  if (isFailure(parsed)) return parsed;
  const pointer = parsePointer(parsed.value);
  if (pointer === undefined || isFailure(pointer)) return pointer ?? parsed;
  if (payloads === undefined) {
    return failure(
      'INVALID_POINTER',
      'body: expected a request, got a pointer to S3; this deployment has no payload bucket',
    );
  }
  const text = await payloads.read(pointer, signal);
  return isFailure(text) ? text : parsePayload(text, pointer);
}

function parsePayload(text: string, { key }: PayloadPointer): Parsed | Failure {
  const where = `s3 object ${preview(key)}`;
  const parsed = parseJson(text, where);
  if (isFailure(parsed) || parsePointer(parsed.value) === undefined) return parsed;
  return failure('INVALID_POINTER', `${where}: expected a request, got another pointer; point to the request itself`);
}

function parseJson(text: string, path: string): Parsed | Failure {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    const position = error instanceof SyntaxError ? /at position \d+/.exec(error.message)?.[0] : undefined;
    return failure(
      'INVALID_JSON',
      `${path}: expected one JSON request, got ${text.length} characters that are not JSON` +
        `${position === undefined ? '' : ` (${position})`}; NaN and Infinity are written as strings`,
    );
  }
}
