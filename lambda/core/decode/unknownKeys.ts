import type { JsonObject } from '../base/json.ts';
import { nearestName } from '../base/nearestName.ts';
import { type Failure, failure, preview } from '../contract/failure.ts';

/** What to do about a request that is not of the right form. */
export const SEE_FORMAT = 'see docs/message-format.md';

/**
 * A failure that names the first key of `object` that is not `known`, if there is one.
 *
 * @param keysOf what to say that is known, where the object may have several forms
 */
export function refuseUnknownKeys(
  object: JsonObject,
  known: readonly string[],
  pathOf: () => string,
  keysOf = () => known.join(', '),
): Failure | undefined {
  for (const key in object) {
    if (known.includes(key)) continue;
    const nearest = nearestName(key, known);
    const cure = nearest === undefined ? 'fix its name or remove it' : `did you mean ${nearest}?`;
    return failure('INVALID_REQUEST', `${pathOf()}: expected only the keys ${keysOf()}, got ${preview(key)}; ${cure}`);
  }
  return undefined;
}
