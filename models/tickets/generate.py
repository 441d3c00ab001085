"""Write synthetic support tickets from the phrasings of `phrases.json`."""

import json
import random
import re
from pathlib import Path
from typing import NamedTuple

from tokenizer import tokenize

PHRASES_PATH = Path(__file__).resolve().parent / "phrases.json"

SEED = 20
TRAINING_PER_LABEL = 1000
HELD_OUT_PER_LABEL = 80
HELD_OUT_PHRASINGS_PER_LABEL = 12

SECOND_PHRASING_SHARE = 0.5
SYNONYM_SHARE = 0.5
OPENER_SHARE = 0.5
ASIDE_SHARE = 0.5
CLOSER_SHARE = 0.5
FILLER_SHARE = 0.25
TYPO_SHARE = 0.04
SHORTEST_WORD_WITH_TYPO = 4
LOWER_CASE_SHARE = 0.2
UPPER_CASE_SHARE = 0.03
UNPUNCTUATED_SHARE = 0.2
CURLY_APOSTROPHE_SHARE = 0.3


class Ticket(NamedTuple):
    text: str
    label: str
    known_phrasing: bool
    """Whether tickets of the training part use the same phrasing."""


class Tickets(NamedTuple):
    training: list[Ticket]
    held_out: list[Ticket]


def generate_tickets(labels):
    """Return the training part and the held-out part, each shuffled, no ticket twice.

    Half of the held-out part uses phrasings that no training ticket uses.
    """
    rng = random.Random(SEED)
    phrases = json.loads(PHRASES_PATH.read_text(encoding="utf-8"))
    written = set()
    training, held_out = [], []
    for label in labels:
        known, unknown = split_phrasings(rng, phrases["phrasings"][label])
        for part, phrasings, count in (
            (training, known, TRAINING_PER_LABEL),
            (held_out, known, HELD_OUT_PER_LABEL // 2),
            (held_out, unknown, HELD_OUT_PER_LABEL // 2),
        ):
            texts = write_tickets(rng, phrases, phrasings, count, written)
            part += [Ticket(text, label, known_phrasing=phrasings is known) for text in texts]
    rng.shuffle(training)
    rng.shuffle(held_out)
    return Tickets(training, held_out)


def split_phrasings(rng, phrasings):
    shuffled = rng.sample(phrasings, len(phrasings))
    return shuffled[HELD_OUT_PHRASINGS_PER_LABEL:], shuffled[:HELD_OUT_PHRASINGS_PER_LABEL]


def write_tickets(rng, phrases, phrasings, count, written):
    """Return `count` texts, the phrasings in turn, none with the tokens of one in `written`; adds them to it."""
    texts = []
    while len(texts) < count:
        text = write_ticket(rng, phrases, phrasings, phrasings[len(texts) % len(phrasings)])
        tokens = tuple(tokenize(text))
        if tokens not in written:
            written.add(tokens)
            texts.append(text)
    return texts


def write_ticket(rng, phrases, phrasings, phrasing):
    core = choose_core(rng, phrasings, phrasing)
    sentences = [vary_wording(rng, phrases["synonyms"], sentence) for sentence in core]
    if rng.random() < ASIDE_SHARE:
        sentences.insert(rng.randrange(len(sentences) + 1), rng.choice(phrases["asides"]))
    if rng.random() < OPENER_SHARE:
        sentences.insert(0, rng.choice(phrases["openers"]))
    if rng.random() < CLOSER_SHARE:
        sentences.append(rng.choice(phrases["closers"]))

    words = fill_slots(rng, phrases["slots"], " ".join(sentences)).split()
    words = [make_typo(rng, word) if rng.random() < TYPO_SHARE else word for word in words]
    if rng.random() < FILLER_SHARE:
        words.insert(rng.randrange(len(words)), rng.choice(phrases["fillers"]))
    return restyle(rng, " ".join(words))


def choose_core(rng, phrasings, phrasing):
    """The phrasing, often with a second one of the same label."""
    if rng.random() >= SECOND_PHRASING_SHARE:
        return [phrasing]
    return [phrasing, rng.choice([other for other in phrasings if other != phrasing])]


def vary_wording(rng, synonyms, sentence):
    """Often replace a word that has synonyms by any of them; one word of each group at most."""
    for group in synonyms:
        word = re.search(rf"\b({'|'.join(group)})\b", sentence)
        if word and rng.random() < SYNONYM_SHARE:
            sentence = sentence[: word.start()] + rng.choice(group) + sentence[word.end() :]
    return sentence


def fill_slots(rng, slots, text):
    def fill(slot):
        name = slot.group(1)
        return str(rng.randrange(10_000, 1_000_000)) if name == "order" else rng.choice(slots[name])

    return re.sub(r"\{(\w+)\}", fill, text)


def make_typo(rng, word):
    """Swap two neighbouring letters, drop one or double one."""
    if len(word) < SHORTEST_WORD_WITH_TYPO or not word.isalpha():
        return word
    at = rng.randrange(1, len(word) - 1)
    return rng.choice(
        [
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
        ]
    )


def restyle(rng, text):
    if rng.random() < UNPUNCTUATED_SHARE:
        text = re.sub(r"[.,!?:]+(?=\s|$)", "", text)
    if rng.random() < CURLY_APOSTROPHE_SHARE:
        text = text.replace("'", "’")
    if rng.random() < LOWER_CASE_SHARE:
        return text.lower()
    if rng.random() < UPPER_CASE_SHARE:
        return text.upper()
    return text
