import { parseIfJson } from '../base/json.ts';
import { isFailure } from '../contract/failure.ts';
import type { RequestInput, ScoringRequest } from '../contract/request.ts';
import { allocateFromSlab } from '../tensor/datatype.ts';
import { elementCount } from '../tensor/tensor.ts';
import { decodeData } from './decodeData.ts';
import { decodeRaw } from './decodeRaw.ts';
import type { ElementSlot, Slot } from './findSlots.ts';
import { readFloats } from './readFloats.ts';
import { rowsFirst } from './rowsFirst.ts';

/** The text of a request, decoded in full once, in which the id and the elements may be others. */
export interface Template {
  readonly sample: ScoringRequest;
  /** The constant text: before, between and after the slots. */
  readonly fixedTexts: readonly string[];
  readonly slots: readonly Slot[];
  /** Arrays and objects in every request that it reads. */
  readonly containers: number;
  /** Whether its floats were plain decimals so far. */
  plainFloats: boolean;
}

/** How far the requests of a text are read. */
export interface Cursor {
  readonly record: number;
  /** Which request comes next, and where it begins. */
  position: number;
  at: number;
  /** Arrays and objects in those before. */
  containers: number;
}

/** The request that a text is; undefined where it does not match. */
export function readWhole(template: Template, text: string, record: number): ScoringRequest | undefined {
  const { fixedTexts, slots } = template;
  const last = fixedTexts[slots.length] as string;
  const lastAt = text.length - last.length;
  return hasAt(text, lastAt, last)
    ? readSlots(template, text, { record, position: 0, at: 0, containers: 0 }, lastAt)
    : undefined;
}

/** The request that begins at the cursor, which is moved behind it; undefined where it does not match. */
export function readNext(template: Template, text: string, cursor: Cursor): ScoringRequest | undefined {
  return readSlots(template, text, cursor, undefined);
}

/** @param lastAt where the last of the fixed texts is; undefined where it is not known */
function readSlots(
  template: Template,
  body: string,
  cursor: Cursor,
  lastAt: number | undefined,
): ScoringRequest | undefined {
  const { sample, fixedTexts, slots, containers } = template;
  const first = fixedTexts[0] as string;
  if (!hasAt(body, cursor.at, first)) return undefined;
  let id: string | undefined;
  const inputs: RequestInput[] = [];
  let at = cursor.at + first.length;
  for (let index = 0; index < slots.length; index++) {
    const slot = slots[index] as Slot;
    const after = fixedTexts[index + 1] as string;
    const floats = slot.kind === 'numbers' ? readPlainFloats(template, slot, body, at) : undefined;
    const end = floats?.end ?? (index === slots.length - 1 ? lastAt : undefined) ?? endOf(slot, body, at);
    if (end < at || end - at > MOST_SLOT_CHARACTERS || !hasAt(body, end, after)) return undefined;
    if (slot.kind === 'id') {
      const text = body.slice(at, end);
      if (!PLAIN_ID.test(text)) return undefined;
      id = text;
    } else {
      const input = floats?.input ?? readInput(slot, body.slice(at, end));
      if (input === undefined) return undefined;
      inputs[slot.input] = input;
    }
    at = end + after.length;
  }
  if (lastAt !== undefined && at !== body.length) return undefined;
  const { model, rows, length, outputs, reply } = sample;
  const { record, position } = cursor;
  cursor.position = position + 1;
  cursor.at = at;
  cursor.containers += containers;
  return { record, position, id, model, rows, length, inputs, outputs, reply };
}

/** An input whose elements are plain decimals; undefined where they are not, and for the template from then on. */
function readPlainFloats(
  template: Template,
  { datatype, shape, batchAxis }: ElementSlot,
  body: string,
  at: number,
): { readonly input: RequestInput; readonly end: number } | undefined {
  if (!template.plainFloats || (datatype !== 'FP32' && datatype !== 'FP64')) return undefined;
  const data = allocateFromSlab(datatype, elementCount(shape)) as Float32Array | Float64Array;
  const end = readFloats(body, at, data);
  if (end >= 0) return { input: rowsFirst({ datatype, shape, data }, batchAxis), end };
  template.plainFloats = false;
  return undefined;
}

/** As `startsWith`, which compares one character at a time; slices are compared all at once. */
function hasAt(body: string, position: number, fixedText: string): boolean {
  return body.slice(position, position + fixedText.length) === fixedText;
}

/** A longer text is outlined before it is parsed. */
const MOST_SLOT_CHARACTERS = 65_536;

/** Where the text of a slot ends, if it is neither nested nor escaped; -1 where it has no end. */
function endOf({ kind }: Slot, body: string, from: number): number {
  if (kind !== 'numbers') return body.indexOf('"', from);
  const bracket = body.indexOf(']', from);
  return bracket < 0 ? -1 : bracket + 1;
}

/** An id that JSON spells as it is, without escapes. */
const PLAIN_ID = /^[\x20\x21\x23-\x5b\x5d-\x7e]{0,1024}$/;

/** An input with the elements in `text`, in every other way like the sample's; undefined where they are wrong. */
function readInput({ kind, datatype, shape, batchAxis }: ElementSlot, text: string): RequestInput | undefined {
  const data =
    kind === 'base64'
      ? decodeRaw(text, datatype, shape, NOWHERE)
      : decodeData(parseIfJson(text), datatype, shape, NOWHERE, allocateFromSlab);
  return isFailure(data) ? undefined : rowsFirst({ datatype, shape, data }, batchAxis);
}

/** Only a full decode says where something is wrong. */
const NOWHERE = (): string => '';
