import type { Failure } from '../contract/failure.ts';
import type { ScoringRequest } from '../contract/request.ts';
import type { Part } from '../plan/microBatch.ts';
import { join } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** The outputs of requests that were split among several micro-batches, until all their parts are scored. */
export interface PartialOutputs {
  /** The whole request's outputs once its last part is in, or why its parts do not fit together; else undefined. */
  collectPart(part: Part, outputs: readonly Tensor[]): readonly Tensor[] | Failure | undefined;
  /** Has a request run whole after all: what its parts got is forgotten. @returns whether nobody else has taken it */
  takeWhole(request: ScoringRequest): boolean;
}

interface ScoredParts {
  readonly parts: { readonly fromRow: number; readonly outputs: readonly Tensor[] }[];
  rowsLeft: number;
}

export function createPartialOutputs(): PartialOutputs {
  const split = new Map<ScoringRequest, ScoredParts>();
  const takenWhole = new Set<ScoringRequest>();
  return {
    takeWhole(request) {
      if (takenWhole.has(request)) return false;
      takenWhole.add(request);
      split.delete(request);
      return true;
    },
    collectPart({ request, fromRow, toRow }, outputs) {
      if (toRow - fromRow === request.rows) return outputs;
      if (takenWhole.has(request)) return undefined;
      const scored = split.get(request) ?? { parts: [], rowsLeft: request.rows };
      split.set(request, scored);
      scored.parts.push({ fromRow, outputs });
      scored.rowsLeft -= toRow - fromRow;
      if (scored.rowsLeft > 0) return undefined;
      split.delete(request);
      return join(scored.parts.toSorted((a, b) => a.fromRow - b.fromRow).map((part) => part.outputs));
    },
  };
}
