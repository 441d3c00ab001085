import type { Model } from '../../../../lambda/core/model.ts';
import { createBatchingWatch } from '../../../../lambda/core/verify.ts';
import {
  lineRequest,
  memoryWriter,
  repositoryOf,
  type ScoringOptions,
  scoringDependencies,
  standardRecords,
} from '../../../helpers/scoring.ts';
import { answerTo } from './answers.ts';

export function depsFor(model: Model, share = 0.01, options: ScoringOptions = {}) {
  return scoringDependencies({ models: repositoryOf(model), batching: createBatchingWatch(share), ...options });
}

/** The same process later on, with results of its own. */
export function again(deps: ReturnType<typeof depsFor>) {
  return { ...deps, writer: memoryWriter() };
}

export function oneRowEach(values: readonly number[]) {
  return standardRecords(values.map((value) => lineRequest([value])));
}

export function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

/** What each of the records is answered, in one list. */
export function answers(deps: ReturnType<typeof depsFor>, records: number): unknown[] {
  return upTo(records).flatMap((number) => answerTo(deps.writer, number - 1) as unknown);
}

/** The runs of more than one row. */
export function batched(runs: readonly (readonly number[])[]) {
  return runs.filter(({ length }) => length > 1);
}
