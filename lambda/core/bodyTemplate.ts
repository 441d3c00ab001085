import { isFailure } from './failure.ts';
import { readFloats } from './floatText.ts';
import { isObject, type JsonObject, parseIfJson } from './json.ts';
import type { RequestInput, ScoringRequest } from './microBatch.ts';
import { shapeInModel, type TensorSpec } from './model.ts';
import { MAX_LEVELS, outlineAt } from './outline.ts';
import { rowsFirst } from './requestInputs.ts';
import { allocateFromSlab, type Datatype, elementCount, isBase64Data } from './tensor.ts';
import { decodeData, decodeRaw } from './values.ts';

/*
 * The requests of one producer often differ only in the id and the elements:
 *
 * {"id":"order-42","inputs":[{"name":"image","datatype":"FP32","shape":[1,4],"data":[0.5,1,0,2]}]}
 * └──┬──┘└──┬───┘└─────────────────────────────┬────────────────────────────────┘└────┬────┘└─┬─┘
 *  fixed   slot                              fixed                                   slot   fixed
 *
 * A template is a request that was decoded in full once. If a later request has the same fixed texts, only its slots
 * are read. A template never decides what is valid. A request that does not match exactly, or is not plain (an escape
 * in the id, wrong elements), is decoded in full, which reports the error.
 *
 * Templates reduce the cost of scoring 4,000 rows of 64 floats by a fifth from JSON and by two fifths from base64,
 * packed by 100 or not. To remove them, delete this file and `templates` in body.ts.
 */

export interface Templates {
  /** Reads a body's request, or returns undefined if it must be decoded in full. */
  read(body: string, bodyIndex: number): ScoringRequest | undefined;
  /** Reads the packed request at the cursor and moves the cursor behind it, or returns undefined. */
  readNext(body: string, cursor: Cursor): ScoringRequest | undefined;
  learn(text: string, request: ScoringRequest): void;
  isLearning(): boolean;
}

const MAX_TEMPLATES = 4;
/**
 * Maximum length of a body to learn, and of a slot. Learning numbers takes several times as long as decoding them, and
 * longer bodies are nearly all numbers. Base64 is searched but not parsed: a picture of 150 KB takes half of the time.
 */
const MAX_CHARACTERS = { numbers: 65_536, base64: 524_288, id: 65_536 };
/** Successive bodies, and shares of the length of a body to learn, without a match after which learning ends. */
const MAX_MISSES = 64;
const MAX_SHARES_MISSED = 2;

export function createTemplates(): Templates {
  const templates: Template[] = [];
  let misses = 0;
  let sharesMissed = 0;
  const isLearning = (): boolean => misses < MAX_MISSES && sharesMissed < MAX_SHARES_MISSED;
  let unlearnt: { readonly text: string; readonly request: ScoringRequest } | undefined;
  // A body is learnt only when another one follows. For a lone message, learning would take longer than decoding.
  const learnLast = (): void => {
    if (unlearnt === undefined) return;
    const { text, request } = unlearnt;
    unlearnt = undefined;
    const { end, levels, containers } = outlineAt(text, 0);
    // One level less than allowed, because a packed request has one more.
    if (end > text.length || levels >= MAX_LEVELS) return;
    const template = templateOf(text, request, containers);
    if (template === undefined) return;
    templates.unshift(template);
    templates.length = Math.min(templates.length, MAX_TEMPLATES);
  };
  const firstThat = (read: (template: Template) => ScoringRequest | undefined): ScoringRequest | undefined => {
    learnLast();
    for (const template of templates) {
      const request = read(template);
      if (request === undefined) continue;
      misses = 0;
      sharesMissed = 0;
      return request;
    }
    return undefined;
  };
  return {
    read: (body, bodyIndex) =>
      body.length > MAX_CHARACTERS.base64 ? undefined : firstThat((template) => readWhole(template, body, bodyIndex)),
    readNext: (body, cursor) => firstThat((template) => readSlots(template, body, cursor)),
    learn(text, request) {
      const isBase64 = request.inputs.some(({ data }) => isBase64Data(data));
      const share = text.length / MAX_CHARACTERS[isBase64 ? 'base64' : 'numbers'];
      if (share > 1) return;
      if (isLearning()) unlearnt = { text, request };
      misses += 1;
      sharesMissed += share;
    },
    isLearning,
  };
}

/**
 * Creates the template of a request's text. Returns undefined if the constant parts are uncertain.
 *
 * @param containers number of arrays and objects in the text
 */
function templateOf(body: string, sample: ScoringRequest, containers: number): Template | undefined {
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

/** Returns true if different text in the slots changes exactly the values of the slots. */
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

type Slot = { readonly kind: 'id' } | ElementSlot;

interface ElementSlot {
  readonly kind: 'base64' | 'numbers';
  readonly input: number;
  readonly datatype: Datatype;
  /** Shape as sent, with the rows on `batchAxis`. */
  readonly shape: readonly number[];
  readonly batchAxis: number | undefined;
}

interface FoundSlot {
  readonly slot: Slot;
  readonly from: number;
  readonly to: number;
}

/** Finds the places of the id and of each input's elements. Returns undefined unless each has exactly one. */
function findSlots(body: string, value: JsonObject, sample: ScoringRequest): FoundSlot[] | undefined {
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

function findNumbers(body: string, data: unknown, slot: Slot): FoundSlot | undefined {
  const wanted = JSON.stringify(data);
  const places = [...body.matchAll(/\[[^[\]"]*\]/g)].filter(([text]) => JSON.stringify(parseIfJson(text)) === wanted);
  const [place] = places;
  if (place === undefined || places.length > 1) return undefined;
  return { slot, from: place.index, to: place.index + place[0].length };
}

/** Request that was decoded in full, and its text with gaps for the id and the elements. */
interface Template {
  readonly sample: ScoringRequest;
  /** Constant text before, between and after the slots. */
  readonly fixedTexts: readonly string[];
  readonly slots: readonly Slot[];
  readonly containers: number;
  /** True while its floats are plain decimals. */
  plainFloats: boolean;
}

export interface Cursor {
  readonly bodyIndex: number;
  position: number;
  at: number;
  /** Number of arrays and objects before the position. */
  containers: number;
}

function readWhole(template: Template, text: string, bodyIndex: number): ScoringRequest | undefined {
  const { fixedTexts, slots } = template;
  const last = fixedTexts[slots.length] as string;
  const lastAt = text.length - last.length;
  return hasAt(text, lastAt, last)
    ? readSlots(template, text, { bodyIndex, position: 0, at: 0, containers: 0 }, lastAt)
    : undefined;
}

/**
 * Reads the request at the cursor and moves the cursor behind it, or returns undefined if it does not match.
 *
 * @param lastAt place of the last fixed text, if it is known
 */
function readSlots(template: Template, body: string, cursor: Cursor, lastAt?: number): ScoringRequest | undefined {
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
    if (end < at || end - at > MAX_CHARACTERS[slot.kind] || !hasAt(body, end, after)) return undefined;
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
  const { bodyIndex, position } = cursor;
  cursor.position = position + 1;
  cursor.at = at;
  cursor.containers += containers;
  return { bodyIndex, position, id, model, rows, length, inputs, outputs, reply };
}

/** Reads plain decimals. If they are not plain, returns undefined, and the template skips this method from then on. */
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

/** Compares like `startsWith`, which compares character by character. Slices are compared at once. */
function hasAt(body: string, position: number, fixedText: string): boolean {
  return body.slice(position, position + fixedText.length) === fixedText;
}

/** Returns the end of a slot's text that is neither nested nor escaped, or -1. */
function endOf({ kind }: Slot, body: string, from: number): number {
  if (kind !== 'numbers') return body.indexOf('"', from);
  const bracket = body.indexOf(']', from);
  return bracket < 0 ? -1 : bracket + 1;
}

/** Matches an id without escapes. */
const PLAIN_ID = /^[\x20\x21\x23-\x5b\x5d-\x7e]{0,1024}$/;

/** Creates an input like the sample's with the elements in `text`, or returns undefined if they are wrong. */
function readInput({ kind, datatype, shape, batchAxis }: ElementSlot, text: string): RequestInput | undefined {
  const data =
    kind === 'base64'
      ? decodeRaw(text, datatype, shape, NOWHERE)
      : decodeData(parseIfJson(text), datatype, shape, NOWHERE, allocateFromSlab);
  return isFailure(data) ? undefined : rowsFirst({ datatype, shape, data }, batchAxis);
}

/** Only a full decode reports places of errors. */
const NOWHERE = (): string => '';
