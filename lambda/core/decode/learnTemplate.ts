import { isObject, type JsonObject, parseIfJson } from '../base/json.ts';
import type { ScoringRequest } from '../contract/request.ts';
import { findSlots } from './findSlots.ts';
import type { Template } from './readTemplate.ts';

/**
 * The template of a request's text; undefined where it is not certain what is constant in it.
 *
 * @param containers arrays and objects in it
 */
export function templateOf(body: string, sample: ScoringRequest, containers: number): Template | undefined {
  const value = parseIfJson(body);
  if (!isObject(value) || !Array.isArray(value.inputs) || sample.model.transform !== undefined) return undefined;
  const found = findSlots(body, value, sample);
  if (found === undefined) return undefined;
  const fixedTexts: string[] = [];
  let position = 0;
  for (const { from, to } of found) {
    if (from < position) return undefined;
    fixedTexts.push(body.slice(position, from));
    position = to;
  }
  fixedTexts.push(body.slice(position));
  const template = { sample, fixedTexts, slots: found.map(({ slot }) => slot), containers, plainFloats: true };
  return isSound(template, value) ? template : undefined;
}

/** Whether other text in the slots changes exactly the values that the slots stand for. */
function isSound({ fixedTexts, slots, sample }: Template, value: JsonObject): boolean {
  const probes = slots.map(({ kind }, index) => (kind === 'numbers' ? `[0.5,${index}]` : `probe${index}`));
  const probed = parseIfJson(fixedTexts.map((fixedText, index) => fixedText + (probes[index] ?? '')).join(''));
  const expected: Record<string, unknown> = structuredClone(value);
  for (const [index, slot] of slots.entries()) {
    const probe = probes[index] as string;
    if (slot.kind === 'id') expected.id = probe;
    else {
      const entries = expected.inputs as Record<string, unknown>[];
      const entry = entries.findIndex(({ name }) => name === sample.model.inputs[slot.input]?.name);
      if (slot.kind === 'numbers') (entries[entry] as Record<string, unknown>).data = parseIfJson(probe);
      else (expected.raw_input_contents as unknown[])[entry] = probe;
    }
  }
  return JSON.stringify(probed) === JSON.stringify(expected);
}
