import { type JsonObject, parseIfJson } from '../base/json.ts';
import { shapeInModel, type TensorSpec } from '../contract/model.ts';
import type { RequestInput, ScoringRequest } from '../contract/request.ts';
import type { Datatype } from '../tensor/datatype.ts';

/** What stands between the fixed texts of a body. */
export type Slot = { readonly kind: 'id' } | ElementSlot;

/** The elements of an input. */
export interface ElementSlot {
  readonly kind: 'base64' | 'numbers';
  readonly input: number;
  readonly datatype: Datatype;
  /** As it was sent, the rows on `batchAxis`. */
  readonly shape: readonly number[];
  readonly batchAxis: number | undefined;
}

export interface FoundSlot {
  readonly slot: Slot;
  readonly from: number;
  readonly to: number;
}

/** Where the id and the elements of each input stand, in order; undefined unless each stands in one place only. */
export function findSlots(body: string, value: JsonObject, sample: ScoringRequest): FoundSlot[] | undefined {
  const slots: (FoundSlot | undefined)[] = [];
  if (typeof value.id === 'string') slots.push(findString(body, value.id, { kind: 'id' }));
  for (const [entry, { name, data }] of (value.inputs as JsonObject[]).entries()) {
    const input = sample.model.inputs.findIndex((spec) => spec.name === name);
    slots.push(
      Array.isArray(value.raw_input_contents)
        ? findString(body, String(value.raw_input_contents[entry]), elementSlot('base64', input, sample))
        : findNumbers(body, data, elementSlot('numbers', input, sample)),
    );
  }
  const certain = slots.filter((slot) => slot !== undefined);
  return certain.length === slots.length ? certain.toSorted((a, b) => a.from - b.from) : undefined;
}

function elementSlot(kind: ElementSlot['kind'], input: number, { model, inputs }: ScoringRequest): ElementSlot {
  const spec = model.inputs[input] as TensorSpec;
  const { datatype, shape } = inputs[input] as RequestInput;
  return { kind, input, datatype, shape: shapeInModel(spec, shape), batchAxis: spec.batchAxis };
}

function findString(body: string, text: string, slot: Slot): FoundSlot | undefined {
  const from = body.indexOf(`"${text}"`) + 1;
  if (from === 0 || body.indexOf(`"${text}"`, from) >= 0) return undefined;
  return { slot, from, to: from + text.length };
}

/** A flat array, brackets included. */
function findNumbers(body: string, data: unknown, slot: Slot): FoundSlot | undefined {
  const wanted = JSON.stringify(data);
  const places = [...body.matchAll(/\[[^[\]"]*\]/g)].filter(([text]) => JSON.stringify(parseIfJson(text)) === wanted);
  const [place] = places;
  if (place === undefined || places.length > 1) return undefined;
  return { slot, from: place.index, to: place.index + place[0].length };
}
