import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** A path to a model, or its name in the model repository where there is no such path. */
export function modelPath(name: string, models: string): string {
  const inRepository = join(models, name);
  return !existsSync(name) && existsSync(inRepository) ? inRepository : name;
}
