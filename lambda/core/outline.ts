/** What a JSON text is like, without parsing it. */
interface Outline {
  /** Levels of arrays and objects; counting stops beyond `MAX_LEVELS`. */
  readonly levels: number;
  /** Arrays and objects; counting stops beyond {@link maxContainers}. */
  readonly containers: number;
  /** Keys of the object that has most; counting stops beyond `MAX_KEYS`. */
  readonly keys: number;
  /** Elements of the array that the text is, if it is one. */
  readonly elements: number;
}

/** Levels of arrays and objects that a body may have: more than any tensor has axes. */
export const MAX_LEVELS = 100;

/** Keys that one object of a body may have: more than any model has inputs. */
export const MAX_KEYS = 10_000;

/** So many arrays and objects take 50 ms to parse: every body may have them. */
export const FEW_CONTAINERS = 200_000;
const FEWEST_CHARACTERS_EACH = 10;

/** Arrays and objects that a body may hold: nested rows of a tensor, and packed requests, have more characters each. */
export function maxContainers(text: string): number {
  return Math.max(FEW_CONTAINERS, Math.floor(text.length / FEWEST_CHARACTERS_EACH));
}

/** Shorter texts are parsed in no time, whatever they are like. */
const SHORT_CHARACTERS = 65_536;
const SHORT: Outline = { levels: 0, containers: 0, keys: 0, elements: 0 };

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/**
 * The outline of a long text, to refuse what would take long to parse: a megabyte of brackets takes half a second and a
 * hundred times its memory, one of keys thirty times. Reading the outline takes two milliseconds a megabyte.
 */
export function outlineOf(text: string): Outline {
  if (isShort(text)) return SHORT;
  const outline = readOutline(text, 0, false);
  return text.trimStart().startsWith('[') ? outline : { ...outline, elements: 0 };
}

/** Returns true if a text has so few arrays and objects, on so few levels, that it is parsed within little more than its memory. */
export function isShallow(text: string): boolean {
  const { levels, containers } = outlineOf(text);
  return levels <= MAX_LEVELS && containers <= maxContainers(text);
}

/** Returns true if a text is short enough to be parsed without a look at its outline. */
export function isShort(text: string): boolean {
  return text.length <= SHORT_CHARACTERS;
}

/** The outline of one array or object inside a text. */
interface PartOutline extends Outline {
  /** Where what follows it begins; beyond the text where it has no end, or counting stopped before. */
  readonly end: number;
}

/** The outline of the array or object that begins at `from`, however long the text is. */
export function outlineAt(text: string, from: number): PartOutline {
  return readOutline(text, from, true);
}

/** @param alone whether to stop where what begins at `from` ends */
function readOutline(text: string, from: number, alone: boolean): PartOutline {
  let level = 0;
  const max = maxContainers(text);
  let end = text.length + 1;
  let levels = 0;
  let containers = 0;
  let keys = 0;
  let elements = 1;
  const keysAtLevel = new Int32Array(MAX_LEVELS + 2);
  for (let index = from; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === QUOTE) {
      index = endOfString(text, index + 1);
      if (index < 0) break;
    } else if (code === OPEN_ARRAY || code === OPEN_OBJECT) {
      level += 1;
      containers += 1;
      if (containers > max) break;
      if (level > levels) levels = level;
      if (levels > MAX_LEVELS) break;
      keysAtLevel[level] = 0;
    } else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) {
      level -= 1;
      if (level > 0 || !alone) continue;
      end = index + 1;
      break;
    } else if (code === COLON) {
      keysAtLevel[level] = (keysAtLevel[level] ?? 0) + 1;
      keys = Math.max(keys, keysAtLevel[level] ?? 0);
      if (keys > MAX_KEYS) break;
    } else if (code === COMMA && level === 1) elements += 1;
  }
  return { levels, containers, keys, elements, end };
}

/** Where the string ends that starts at `from`: at a quote behind an even number of backslashes; -1 if it does not. */
function endOfString(text: string, from: number): number {
  for (let quote = text.indexOf('"', from); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(quote - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return quote;
  }
  return -1;
}
