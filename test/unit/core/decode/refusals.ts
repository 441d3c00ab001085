import { decodeBody } from '../../../../lambda/core/body.ts';
import type { Failure } from '../../../../lambda/core/failure.ts';
import { type DecodedBody, isPacked, isRefused, type ScoringRequest } from '../../../../lambda/core/microBatch.ts';
import type { ModelRepository } from '../../../../lambda/core/model.ts';
import type { PayloadReader } from '../../../../lambda/core/record.ts';
import { UNHINDERED } from '../../../helpers/scoring.ts';

const LIMITS = { maxRequestRows: 8, maxRequestsPerMessage: 10_000 };

/** Decodes a body, JSON text or a value to send as JSON, under a limit of 8 rows a request. */
export async function decode(body: unknown, models: ModelRepository, payloads?: PayloadReader): Promise<DecodedBody> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return decodeBody(text, 0, { models, payloads, limits: LIMITS }, UNHINDERED);
}

/** The only request of a body that must be accepted. */
export async function accepted(
  body: unknown,
  models: ModelRepository,
  payloads?: PayloadReader,
): Promise<ScoringRequest> {
  const request = await decode(body, models, payloads);
  if (isPacked(request)) throw new Error('expected one request, not packed');
  if (isRefused(request)) throw new Error(`expected the request to be accepted: ${request.failure.message}`);
  return request;
}

/** Why the only request of a body is refused. */
export async function refusal(body: unknown, models: ModelRepository, payloads?: PayloadReader): Promise<Failure> {
  const request = await decode(body, models, payloads);
  if (isPacked(request)) throw new Error('expected one request, not packed');
  if (!isRefused(request)) throw new Error('expected the request to be refused');
  return request.failure;
}

/** What a sentence of the form `path …: expected A, got B…` says, for comparing with literals. */
export function sentence({ code, message }: Failure): { code: string; path: string; got: string } {
  const parts = /^(?<path>[^ :]+).*: expected .+?, got (?<got>.+?)(?:[;:,] [a-z].*)?$/s.exec(message);
  if (parts?.groups === undefined) throw new Error(`expected a path, what was expected and what came: ${message}`);
  return { code, path: parts.groups.path ?? '', got: parts.groups.got ?? '' };
}
