"""Tokenizes texts in the producer, and writes a request of each: tokens.py [TOKENIZER OF THE HUB]."""

import json
import sys

from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else 'models/bert')
texts = {'text-1': 'Where is my parcel?', 'text-2': 'charged twice'}

with open('bert-tokens.jsonl', 'w') as file:
    for name, text in texts.items():
        tokens = tokenizer(text, truncation=True, max_length=512)
        instance = {key: tokens[key] for key in ['input_ids', 'attention_mask']}
        print(json.dumps({'id': name, 'model_name': 'bert-tokens', 'instances': [instance]}), file=file)
