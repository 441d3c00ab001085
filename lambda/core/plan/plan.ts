import type { Model } from '../contract/model.ts';
import type { ScoringRequest } from '../contract/request.ts';
import { createFill } from './fill.ts';
import { partition } from './partition.ts';
import type { Plan, Planner, RunLimits } from './planner.ts';

/**
 * Groups requests by model and signature. Where all rows have one shape, micro-batches are filled as requests come;
 * where they differ in length, nothing is cut before all requests are known, or no more may wait.
 */
export const plan: Planner = (maxElementsOf, learntCostOf, sharingOf) => {
  const groupsByModel = new Map<Model, ModelGroups>();
  let last: ModelGroups | undefined;
  const groupsOf = (model: Model): ModelGroups => {
    const known = groupsByModel.get(model) ?? { model, oneShape: hasOneShape(model), groups: new Map() };
    groupsByModel.set(model, known);
    return known;
  };
  const createGroup = (request: ScoringRequest): Plan => {
    const { model } = request;
    const sharing = sharingOf?.(model) ?? { maxRows: model.maxBatchRows, mayCut: true };
    const runLimits = { ...sharing, maxElements: maxElementsOf(model), learnt: learntCostOf?.(model) };
    return model.ragged === undefined ? createFill(request, runLimits) : createGathering(runLimits);
  };
  return {
    add(request) {
      if (last?.model !== request.model) last = groupsOf(request.model);
      const ofModel = last;
      const signature = ofModel.oneShape ? '' : signatureOf(request);
      let group = ofModel.groups.get(signature);
      if (group === undefined) {
        group = createGroup(request);
        ofModel.groups.set(signature, group);
      }
      return group.add(request);
    },
    finish: () =>
      [...groupsByModel.values()].flatMap(({ groups }) => [...groups.values()].flatMap((group) => group.finish())),
  };
};

interface ModelGroups {
  readonly model: Model;
  /** Whether all requests are of one signature. */
  readonly oneShape: boolean;
  readonly groups: Map<string, Plan>;
}

function hasOneShape({ inputs }: Model): boolean {
  return inputs.every(({ shape }) => shape.slice(1).every((dim) => typeof dim === 'number'));
}

function createGathering(runLimits: RunLimits): Plan {
  const requests: ScoringRequest[] = [];
  return {
    add(request) {
      requests.push(request);
      return [];
    },
    finish: () => partition(requests, runLimits),
  };
}

/** The trailing shape of every input, the ragged axis left out; the datatypes are the model's. */
function signatureOf({ model, inputs }: ScoringRequest): string {
  let signature = '';
  for (const [index, { shape }] of inputs.entries()) {
    const ragged = model.ragged?.inputs[index]?.axis;
    for (let axis = 1; axis < shape.length; axis++) if (axis !== ragged) signature += `${shape[axis]},`;
    signature += ';';
  }
  return signature;
}
