/** Ids in one row; shorter texts are padded with 0, of longer ones the first words count. */
export const TOKENS_PER_TEXT = 32;

const PADDING_ID = 0;
const VOCABULARY_SIZE = 4096;
const FNV_OFFSET_BASIS = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** Starts with a letter or number, so that neither an apostrophe nor an emoji's variation selector is a word. */
const WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*(?:'[\p{L}\p{N}\p{M}]+)*/gu;

const utf8 = new TextEncoder();

/**
 * The ids of a text's words, exactly `TOKENS_PER_TEXT` of them. The same as `tokenizer.py`, which the model was
 * trained with; `tokenizer-cases.jsonl` holds the two to the same ids.
 */
export function tokenize(text: string): number[] {
  const words = normalize(text).matchAll(WORD).take(TOKENS_PER_TEXT);
  const ids = Array.from(words, ([word]) => wordId(word));
  return [...ids, ...new Array<number>(TOKENS_PER_TEXT - ids.length).fill(PADDING_ID)];
}

function normalize(text: string): string {
  return text.normalize('NFKC').toLowerCase().replaceAll('’', "'");
}

/** 1 to 4095: 0 is the padding. */
function wordId(word: string): number {
  return 1 + (fnv1a(utf8.encode(word)) % (VOCABULARY_SIZE - 1));
}

/**
 * FNV-1a, 32 bits.
 *
 * @see http://www.isthe.com/chongo/tech/comp/fnv/
 */
function fnv1a(bytes: Uint8Array): number {
  let hash = FNV_OFFSET_BASIS;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, FNV_PRIME);
  return hash >>> 0;
}
