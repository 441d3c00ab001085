import { isFailure } from '../../lambda/core/failure.ts';
import type { Model, ModelRepository } from '../../lambda/core/model.ts';

/** What the models were really given to run. */
export interface RunsSeen {
  runs: number;
  /** Elements of all inputs, padding included. */
  elements: number;
}

/** The same models, with what they are given counted. Not for timed runs. */
export function watchRuns(models: ModelRepository): { readonly models: ModelRepository; readonly seen: RunsSeen } {
  const seen: RunsSeen = { runs: 0, elements: 0 };
  const watchedModels = new Map<Model, Model>();
  const watch = (model: Model): Model => {
    const watched: Model = watchedModels.get(model) ?? {
      ...model,
      run(inputs) {
        seen.runs += 1;
        for (const { data } of inputs) seen.elements += data.length;
        return model.run(inputs);
      },
    };
    watchedModels.set(model, watched);
    return watched;
  };
  return {
    seen,
    models: {
      async find(name, version) {
        const found = await models.find(name, version);
        return isFailure(found) ? found : watch(found);
      },
    },
  };
}
