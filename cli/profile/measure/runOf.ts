import { RANGES } from '../../../lambda/core/limits.ts';
import { elementsPerRowAt, type MicroBatch, microBatchOf, type Part } from '../../../lambda/core/microBatch.ts';
import type { Model } from '../../../lambda/core/model.ts';
import { stack } from '../../../lambda/core/stack.ts';

/** So many rows, one after the other, again and again. */
export function batchOf(model: Model, parts: readonly Part[], rows: number): MicroBatch {
  const repeated = Array.from({ length: rows }, (_, row) => parts[row % parts.length] as Part);
  return microBatchOf(model, repeated, 'end');
}

/** Whether a run of them may hold so many elements, as the host has it by default; a row alone always may. */
export function fits(parts: readonly Part[], rows: number): boolean {
  const { request } = parts[0] as Part;
  return rows === 1 || rows * elementsPerRowAt(request, request.length) <= RANGES.maxBatchElements.default;
}

/** @returns milliseconds inside ONNX Runtime */
export async function runMsOf(model: Model, batch: MicroBatch): Promise<number> {
  return (await model.run(stack(batch))).runMs;
}
