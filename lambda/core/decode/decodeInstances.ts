import { isObject, type JsonObject } from '../base/json.ts';
import { type Failure, failure, isFailure, preview } from '../contract/failure.ts';
import { listNames, type Model, type TensorSpec } from '../contract/model.ts';
import type { RequestInput } from '../contract/request.ts';
import { allocateFromSlab } from '../tensor/datatype.ts';
import { decodeData } from './decodeData.ts';
import { decodeShape, noSharedSizes, type SharedSizes } from './decodeShape.ts';
import { nestingOf } from './nestingOf.ts';
import { unknownInput } from './unknownInput.ts';

/**
 * The short form: an array of instances, one per row. An instance is a nested array (or a scalar) for a model with one
 * input, or an object by input name; it has the input's axes without the batch axis.
 *
 * @see https://www.tensorflow.org/tfx/serving/api_rest#request_format_2 the row format
 */
export function decodeInstances(value: unknown, path: string, model: Model): RequestInput[] | Failure {
  if (!Array.isArray(value) || value.length === 0) {
    const [got, cure] = Array.isArray(value) ? ['an empty one', 'send one for each row'] : [preview(value), WRAP_IT];
    return failure('INVALID_REQUEST', `${path}: expected an array of at least one instance, got ${got}; ${cure}`);
  }
  const byName = isObject(value[0]);
  if (!byName && model.inputs.length > 1) {
    return failure(
      'MISSING_INPUT',
      `${path}[0]: expected an object with ${listNames(model.inputs)} of model '${model.name}', got ${preview(value[0])}; name the inputs`,
    );
  }
  if (byName) {
    const refused = refuseOddInstances(value, path, model);
    if (refused !== undefined) return refused;
  }
  const sizes = noSharedSizes(model);
  const inputs: RequestInput[] = [];
  for (const spec of model.inputs) {
    const rows = byName ? value.map((instance: JsonObject) => instance[spec.name]) : value;
    const input = decodeColumn(rows, spec, sizes, pathWithin(path, byName ? spec.name : undefined));
    if (isFailure(input)) return !byName && isOneInstance(value, spec) ? loneInstance(path, spec) : input;
    inputs.push(input);
  }
  return inputs;
}

const WRAP_IT = 'wrap it in an array';

/** Whether what should be a list of instances has the shape of one. */
function isOneInstance(value: readonly unknown[], { shape }: TensorSpec): boolean {
  const [, ...dims] = shape;
  const nesting = nestingOf(value, dims.length + 1);
  return nesting.length === dims.length && dims.every((dim, axis) => typeof dim === 'string' || dim === nesting[axis]);
}

function loneInstance(path: string, { name, shape }: TensorSpec): Failure {
  const expected = `an array of instances, each [${shape.slice(1).join(', ')}] for '${name}'`;
  return failure('INVALID_SHAPE', `${path}: expected ${expected}, got one instance; ${WRAP_IT}`);
}

function refuseOddInstances(instances: readonly unknown[], path: string, model: Model): Failure | undefined {
  for (const [index, instance] of instances.entries()) {
    const at = `${path}[${index}]`;
    if (!isObject(instance)) {
      return failure(
        'INVALID_REQUEST',
        `${at}: expected an object by input name like the others, got ${preview(instance)}; make them alike`,
      );
    }
    for (const name in instance) {
      if (model.inputs.some((spec) => spec.name === name)) continue;
      return unknownInput(at, name, model);
    }
    const missing = model.inputs.filter((spec) => !Object.hasOwn(instance, spec.name));
    if (missing.length > 0) {
      return failure(
        'MISSING_INPUT',
        `${at}: expected ${listNames(model.inputs)}, got no ${listNames(missing)}; add what is missing`,
      );
    }
  }
  return undefined;
}

/** `instances[3][5]`, or `instances[3].image[5]` where instances are objects. */
function pathWithin(path: string, name: string | undefined): (position: readonly number[]) => string {
  return ([row, ...rest]) => {
    const steps = rest.map((index) => `[${index}]`).join('');
    const within = name === undefined ? '' : `.${name}`;
    return row === undefined ? path : `${path}[${row}]${within}${steps}`;
  };
}

/** The sizes of an instance: behind an empty array those of the model, and 0 where it leaves them open. */
function sizesOf(instance: unknown, { shape }: TensorSpec): number[] {
  const sizes = nestingOf(instance, shape.length - 1);
  if (sizes.at(-1) !== 0) return sizes;
  return [...sizes, ...shape.slice(1 + sizes.length).map((dim) => (typeof dim === 'number' ? dim : 0))];
}

/** All instances' values of one input, as one tensor. Its shape is read off the first instance's nesting. */
function decodeColumn(
  rows: readonly unknown[],
  spec: TensorSpec,
  sizes: SharedSizes,
  pathOf: (position: readonly number[]) => string,
): RequestInput | Failure {
  const nesting = [rows.length, ...sizesOf(rows[0], spec)];
  const shape = decodeShape(nesting, () => pathOf([0]), spec, sizes, 0);
  if (isFailure(shape)) return shape;
  const data = decodeData(rows, spec.datatype, shape, pathOf, allocateFromSlab);
  return isFailure(data) ? data : { datatype: spec.datatype, shape, data };
}
