/** Levels of arrays and objects that a body may have: more than any tensor has axes. */
export const MOST_LEVELS = 100;

/** Shorter texts are parsed in no time, however they are nested. */
const SHORT_CHARACTERS = 65_536;

const QUOTE = 34;
const BACKSLASH = 92;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/**
 * Whether a JSON text has more levels of arrays and objects than allowed. Parsing a megabyte of brackets takes a second
 * and a hundred times its memory; looking for them takes two milliseconds.
 */
export function isNestedTooDeep(text: string): boolean {
  if (text.length <= SHORT_CHARACTERS) return false;
  let levels = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === QUOTE) {
      index = endOfString(text, index + 1);
      if (index < 0) return false;
    } else if (code === OPEN_ARRAY || code === OPEN_OBJECT) {
      levels += 1;
      if (levels > MOST_LEVELS) return true;
    } else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) levels -= 1;
  }
  return false;
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
