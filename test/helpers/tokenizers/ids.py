"""Writes the ids that Python's tokenizers gives to the texts of ids.json. Run it in this folder, with tokenizers==0.23.3."""

import json

from tokenizers import Tokenizer

with open('ids.json', encoding='utf8') as file:
    texts = json.load(file)['texts']
tokenizers = {name: Tokenizer.from_file(f'{name}.json') for name in ('wordpiece', 'byteLevel')}
ids = {name: [tokenizer.encode(text).ids for text in texts] for name, tokenizer in tokenizers.items()}
with open('ids.json', 'w', encoding='utf8') as file:
    json.dump({'texts': texts, **ids}, file, separators=(',', ':'))
