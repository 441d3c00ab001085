import type { Model } from './contract/model.ts';
import type { ScoringRequest } from './contract/request.ts';
import { type Base64Data, isBase64Data } from './decode/rawData.ts';
import type { TensorData } from './tensor/datatype.ts';

/** Requests of one call that are run once and answered many times. */
export interface EqualRequests {
  /** Whether an equal request that is not answered yet is run for this one too. */
  joins(request: ScoringRequest): boolean;
  /** The other requests that `request` was run for. From now on an equal one is run again. */
  othersLike(request: ScoringRequest): readonly ScoringRequest[];
}

const NONE: readonly ScoringRequest[] = [];

/** Every request is run for itself. */
export const NO_EQUALS: EqualRequests = { joins: () => false, othersLike: () => NONE };

export function openEqualRequests(): EqualRequests {
  const byContents = new Map<Model, Map<string, ScoringRequest[]>>();
  const contentsOf = new Map<ScoringRequest, string>();
  return {
    joins(request) {
      const ofModel = byContents.get(request.model) ?? new Map<string, ScoringRequest[]>();
      byContents.set(request.model, ofModel);
      const contents = spell(request);
      const equal = ofModel.get(contents);
      if (equal === undefined) {
        ofModel.set(contents, []);
        contentsOf.set(request, contents);
        return false;
      }
      equal.push(request);
      return true;
    },
    othersLike(request) {
      const contents = contentsOf.get(request);
      if (contents === undefined) return NONE;
      const ofModel = byContents.get(request.model);
      const equal = ofModel?.get(contents) ?? NONE;
      ofModel?.delete(contents);
      contentsOf.delete(request);
      return equal;
    },
  };
}

/** Shapes and elements of every input: the same text for the same bits. */
function spell({ inputs }: ScoringRequest): string {
  return inputs.map(({ shape, data }) => `${shape.join()}:${spellElements(data)}`).join(';');
}

function spellElements(data: TensorData | Base64Data): string {
  if (isBase64Data(data)) return `base64 ${data.base64}`;
  if (Array.isArray(data)) return JSON.stringify(data);
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('latin1');
}
