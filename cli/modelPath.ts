import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { nearestName } from '../lambda/core/wrongValue.ts';

import { walkModels } from '../lambda/onnx/findModels.ts';

/**
 * A path to a model, or its name in the model repository where there is no such path.
 *
 * @param models the model repository
 * @throws Error for a name that is neither; what looks like a path is not looked at
 */
export function modelPath(name: string, models: string): string {
  if (existsSync(name)) return name;
  const inRepository = join(models, name);
  if (existsSync(inRepository)) return inRepository;
  if (/[/\\]|\.onnx$/.test(name)) return name;
  const names = existsSync(models) ? walkModels(models).map((model) => model.name) : [];
  const nearest = nearestName(name, names);
  const listed = names.length === 0 ? 'which has none' : names.join(', ');
  throw new Error(
    `${name}: expected a model folder, a .onnx file or a model of ${models} (${listed}), got none of these` +
      (nearest === undefined ? '; check the name' : `; did you mean ${nearest}?`),
  );
}
