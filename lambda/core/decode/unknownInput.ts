import { type Failure, failure, preview } from '../contract/failure.ts';
import { listNames, type Model } from '../contract/model.ts';

/** Why a request must not have an input of that name. */
export function unknownInput(path: string, name: string, model: Model): Failure {
  const isConstant = model.constants?.includes(name) ?? false;
  const got = isConstant ? `${preview(name)}, a constant of the deployment` : preview(name);
  const cure = isConstant ? 'leave it out' : "use the model's names";
  return failure(
    'UNKNOWN_INPUT',
    `${path}: expected ${listNames(model.inputs)} of model '${model.name}', got ${got}; ${cure}`,
  );
}
