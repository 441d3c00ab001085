/** Size and nesting of a JSON text, found without parsing it. */
interface Outline {
  /** Levels of arrays and objects. Counting stops beyond `MAX_LEVELS`. */
  readonly levels: number;
  /** Number of arrays and objects. Counting stops beyond {@link maxContainers}. */
  readonly containers: number;
  /** Number of keys in the largest object. Counting stops beyond `MAX_KEYS`. */
  readonly keys: number;
  /** Number of elements if the text is an array. */
  readonly elements: number;
}

/** Maximum levels of arrays and objects in a body: more than any tensor has axes. */
export const MAX_LEVELS = 100;

/** Maximum number of keys in an object of a body: more than any model has inputs. */
export const MAX_KEYS = 10_000;

/** Number of arrays and objects that each body may have. They take 50 ms to parse. */
const FEW_CONTAINERS = 200_000;
const FEWEST_CHARACTERS_EACH = 10;

/** Returns the maximum number of arrays and objects in a body. Nested rows and packed requests have fewer. */
export function maxContainers(text: string): number {
  return Math.max(FEW_CONTAINERS, Math.floor(text.length / FEWEST_CHARACTERS_EACH));
}

/** Shorter texts need no outline: they are parsed quickly, whatever they contain. */
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
 * Reads the outline of a long text, to refuse one that takes long to parse. A megabyte of brackets takes half a second
 * and a hundred times its memory, one of keys thirty times. The outline takes two milliseconds a megabyte.
 */
export function outlineOf(text: string): Outline {
  if (isShort(text)) return SHORT;
  const outline = readOutline(text, 0, false);
  return text.trimStart().startsWith('[') ? outline : { ...outline, elements: 0 };
}

/** Returns true if a text has few arrays, objects and levels, so that parsing takes little more than its memory. */
export function isShallow(text: string): boolean {
  const { levels, containers } = outlineOf(text);
  return levels <= MAX_LEVELS && containers <= maxContainers(text);
}

/** Returns true if a text is short enough to parse without an outline. */
export function isShort(text: string): boolean {
  return text.length <= SHORT_CHARACTERS;
}

interface PartOutline extends Outline {
  /** Position after it, or beyond the text if it has no end or counting stopped early. */
  readonly end: number;
}

/** Reads the outline of the array or object at `from`, even in a short text. */
export function outlineAt(text: string, from: number): PartOutline {
  return readOutline(text, from, true);
}

/** @param alone true to stop at the end of the value at `from` */
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

/** Returns the end of the string at `from`: a quote after an even number of backslashes, or -1. */
function endOfString(text: string, from: number): number {
  for (let quote = text.indexOf('"', from); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(quote - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return quote;
  }
  return -1;
}
