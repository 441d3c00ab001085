"""The tokenizer that the model is trained with. `tokenizer.ts` is the same one for serving.

No vocabulary file: a word's id is its hash. `tokenizer-cases.jsonl` holds the two to the same ids.
"""

import re
import unicodedata

PADDING_ID = 0
VOCABULARY_SIZE = 4096
TOKENS_PER_TEXT = 32

FNV_OFFSET_BASIS = 0x811C9DC5
FNV_PRIME = 0x01000193

# Over one symbol per character, see symbol_of: a letter or number, more of them or marks, apostrophes only inside.
WORD = re.compile(r"a[am]*(?:'[am]+)*")


def tokenize(text):
    """Return the ids of the first 32 words, padded with 0 to exactly 32."""
    ids = [word_id(word) for word in split_words(text)[:TOKENS_PER_TEXT]]
    return ids + [PADDING_ID] * (TOKENS_PER_TEXT - len(ids))


def split_words(text):
    normalized = unicodedata.normalize("NFKC", text).lower().replace("’", "'")
    symbols = "".join(symbol_of(character) for character in normalized)
    return [normalized[word.start() : word.end()] for word in WORD.finditer(symbols)]


def symbol_of(character):
    """Python's `re` knows no Unicode categories: write each character as the one letter that WORD looks for."""
    if character == "'":
        return "'"
    return {"L": "a", "N": "a", "M": "m"}.get(unicodedata.category(character)[0], " ")


def word_id(word):
    """1 to 4095: 0 is the padding."""
    return 1 + fnv1a(word.encode()) % (VOCABULARY_SIZE - 1)


def fnv1a(data):
    """FNV-1a, 32 bits: http://www.isthe.com/chongo/tech/comp/fnv/"""
    value = FNV_OFFSET_BASIS
    for byte in data:
        value = (value ^ byte) * FNV_PRIME % 2**32
    return value
