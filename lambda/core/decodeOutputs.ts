import { type Failure, failure, preview } from './failure.ts';
import { isObject, refuseUnknownKeys, SEE_FORMAT } from './json.ts';
import { listNames, type Model } from './model.ts';

const OUTPUT_KEYS = ['name', 'parameters'];

/** Indexes of the outputs asked for, in that order; all of the model's when none are named. */
export function decodeOutputs(value: unknown, path: string, model: Model): number[] | Failure {
  const all = model.outputs.map((_, index) => index);
  if (value === undefined) return all;
  if (!Array.isArray(value)) {
    return failure(
      'INVALID_REQUEST',
      `${path}: expected an array of {"name": …}, got ${preview(value)}; ${SEE_FORMAT}`,
    );
  }
  const chosen: number[] = [];
  for (const [index, entry] of value.entries()) {
    const at = `${path}[${index}]`;
    if (!isObject(entry))
      return failure('INVALID_REQUEST', `${at}: expected {"name": …}, got ${preview(entry)}; ${SEE_FORMAT}`);
    const refused = refuseUnknownKeys(entry, OUTPUT_KEYS, at);
    if (refused !== undefined) return refused;
    const found = model.outputs.findIndex((spec) => spec.name === entry.name);
    if (found < 0) {
      return failure(
        'UNKNOWN_OUTPUT',
        `${at}.name: expected ${listNames(model.outputs)} of model '${model.name}', got ${preview(entry.name)}; use the model's names`,
      );
    }
    if (chosen.includes(found)) {
      return failure(
        'INVALID_REQUEST',
        `${at}.name: expected each output once, got ${preview(entry.name)} again; name it once`,
      );
    }
    chosen.push(found);
  }
  return chosen.length === 0 ? all : chosen;
}
