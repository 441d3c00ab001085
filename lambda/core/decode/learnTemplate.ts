import { isObject, type JsonObject } from '../base/json.ts';
import type { ScoringRequest } from '../contract/request.ts';
import { parseOrNothing, type Slot, type Template } from './readTemplate.ts';

/**
 * The template of a request's text; undefined where it is not certain what is constant in it.
 *
 * @param containers arrays and objects in it
 */
export function templateOf(body: string, sample: ScoringRequest, containers: number): Template | undefined {
  const value = parseOrNothing(body);
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

interface FoundSlot {
  readonly slot: Slot;
  readonly from: number;
  readonly to: number;
}

/** Where the id and the elements of each input stand, in order; undefined unless each stands in one place only. */
function findSlots(body: string, value: JsonObject, sample: ScoringRequest): FoundSlot[] | undefined {
  const slots: (FoundSlot | undefined)[] = [];
  if (typeof value.id === 'string') slots.push(findString(body, value.id, { kind: 'id' }));
  for (const [entry, { name, data }] of (value.inputs as JsonObject[]).entries()) {
    const input = sample.model.inputs.findIndex((spec) => spec.name === name);
    slots.push(
      Array.isArray(value.raw_input_contents)
        ? findString(body, String(value.raw_input_contents[entry]), { kind: 'base64', input })
        : findNumbers(body, data, { kind: 'numbers', input }),
    );
  }
  const certain = slots.filter((slot) => slot !== undefined);
  return certain.length === slots.length ? certain.toSorted((a, b) => a.from - b.from) : undefined;
}

function findString(body: string, text: string, slot: Slot): FoundSlot | undefined {
  const from = body.indexOf(`"${text}"`) + 1;
  if (from === 0 || body.indexOf(`"${text}"`, from) >= 0) return undefined;
  return { slot, from, to: from + text.length };
}

/** A flat array, brackets included. */
function findNumbers(body: string, data: unknown, slot: Slot): FoundSlot | undefined {
  const wanted = JSON.stringify(data);
  const places = [...body.matchAll(/\[[^[\]"]*\]/g)].filter(
    ([text]) => JSON.stringify(parseOrNothing(text)) === wanted,
  );
  const [place] = places;
  if (place === undefined || places.length > 1) return undefined;
  return { slot, from: place.index, to: place.index + place[0].length };
}

/** Whether other text in the slots changes exactly the values that the slots stand for. */
function isSound({ fixedTexts, slots, sample }: Template, value: JsonObject): boolean {
  const probes = slots.map(({ kind }, index) => (kind === 'numbers' ? `[0.5,${index}]` : `probe${index}`));
  const probed = parseOrNothing(fixedTexts.map((fixedText, index) => fixedText + (probes[index] ?? '')).join(''));
  const expected: Record<string, unknown> = structuredClone(value);
  for (const [index, slot] of slots.entries()) {
    const probe = probes[index] as string;
    if (slot.kind === 'id') expected.id = probe;
    else {
      const entries = expected.inputs as Record<string, unknown>[];
      const entry = entries.findIndex(({ name }) => name === sample.model.inputs[slot.input]?.name);
      if (slot.kind === 'numbers') (entries[entry] as Record<string, unknown>).data = parseOrNothing(probe);
      else (expected.raw_input_contents as unknown[])[entry] = probe;
    }
  }
  return JSON.stringify(probed) === JSON.stringify(expected);
}
