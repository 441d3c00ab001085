import type { ScoringRequest } from '../contract/request.ts';
import { elementsPerRow, type Tensor } from '../tensor/tensor.ts';

/** An element and what stands between it and the next. */
const FEWEST_CHARACTERS_AN_ELEMENT = 2;
const BASE64_CHARACTERS_A_BYTE = 4 / 3;

/**
 * The fewest characters that a request's answer can have, to refuse one that is too large before it is spelled; 0 where
 * a transform spells it.
 *
 * @param outputs of a run, one tensor per model output, each `[rows, …]`
 */
export function fewestCharacters(request: ScoringRequest, outputs: readonly Tensor[]): number {
  if (request.model.transform?.encode !== undefined) return 0;
  let characters = 0;
  for (const index of request.outputs) {
    const { shape, data } = outputs[index] as Tensor;
    const elements = request.rows * elementsPerRow(shape);
    const isBinary = request.reply === 'binary' && !Array.isArray(data);
    characters += isBinary
      ? elements * data.BYTES_PER_ELEMENT * BASE64_CHARACTERS_A_BYTE
      : elements * FEWEST_CHARACTERS_AN_ELEMENT;
  }
  return characters;
}
