import type { JsonObject } from '../base/json.ts';
import { type Failure, failure, preview } from '../contract/failure.ts';

/** What to do about a request that is not of the right form. */
export const SEE_FORMAT = 'see docs/message-format.md';

/** A failure that names the first key of `object` that is not `known`, if there is one. */
export function refuseUnknownKeys(
  object: JsonObject,
  known: readonly string[],
  pathOf: () => string,
): Failure | undefined {
  for (const key in object) {
    if (known.includes(key)) continue;
    return failure(
      'INVALID_REQUEST',
      `${pathOf()}: expected only the keys ${known.join(', ')}, got ${preview(key)}; fix its name or remove it`,
    );
  }
  return undefined;
}
