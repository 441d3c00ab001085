import { isObject } from '../base/json.ts';
import { type Failure, failure, preview } from '../contract/failure.ts';
import { listNames, type Model } from '../contract/model.ts';
import { fieldOf } from './fieldPath.ts';
import { refuseUnknownKeys, SEE_FORMAT } from './unknownKeys.ts';

const OUTPUT_KEYS = ['name', 'parameters'];

/** Indexes of all outputs of a model. */
export function everyOutput(model: Model): readonly number[] {
  return model.outputs.map((_, index) => index);
}

/** Indexes of the outputs asked for, in that order; all of the model's when none are named. */
export function decodeOutputs(value: unknown, path: string, model: Model): readonly number[] | Failure {
  if (value === undefined) return everyOutput(model);
  const outputsPath = fieldOf(path, 'outputs');
  if (!Array.isArray(value)) {
    return failure(
      'INVALID_REQUEST',
      `${outputsPath}: expected an array of {"name": …}, got ${preview(value)}; ${SEE_FORMAT}`,
    );
  }
  const chosen: number[] = [];
  for (const [index, entry] of value.entries()) {
    const place = `${outputsPath}[${index}]`;
    if (!isObject(entry))
      return failure('INVALID_REQUEST', `${place}: expected {"name": …}, got ${preview(entry)}; ${SEE_FORMAT}`);
    const refused = refuseUnknownKeys(entry, OUTPUT_KEYS, () => place);
    if (refused !== undefined) return refused;
    const found = model.outputs.findIndex((spec) => spec.name === entry.name);
    if (found < 0) {
      return failure(
        'UNKNOWN_OUTPUT',
        `${place}.name: expected ${listNames(model.outputs)} of model '${model.name}', got ${preview(entry.name)}; use the model's names`,
      );
    }
    if (chosen.includes(found)) {
      return failure(
        'INVALID_REQUEST',
        `${place}.name: expected each output once, got ${preview(entry.name)} again; name it once`,
      );
    }
    chosen.push(found);
  }
  return chosen.length === 0 ? everyOutput(model) : chosen;
}
