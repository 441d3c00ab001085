import { type Failure, failure } from '../contract/failure.ts';
import { fieldOf } from './fieldPath.ts';

export interface DecodeLimits {
  /** Most rows that one request may hold. */
  readonly maxRequestRows: number;
  /** Most requests that one packed message may hold. */
  readonly maxRequestsPerMessage: number;
}

export function tooManyRows(rows: number, path: string, { maxRequestRows }: DecodeLimits): Failure {
  return failure(
    'TOO_MANY_ROWS',
    `${fieldOf(path, 'inputs')}: expected at most ${maxRequestRows} rows in a request, got ${rows}; send several requests`,
  );
}

export function tooManyRequests(requests: number, path: string, { maxRequestsPerMessage }: DecodeLimits): Failure {
  return failure(
    'TOO_MANY_REQUESTS',
    `${path}: expected at most ${maxRequestsPerMessage} requests in a packed message, got ${requests}; ` +
      'send several messages',
  );
}
