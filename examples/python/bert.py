"""Exports a text classifier of the hub, or a small one with made-up weights, and its tokenizer beside it."""

import sys
from pathlib import Path

import numpy as np
import torch
from tokenizers import BertWordPieceTokenizer
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForSequenceClassification
from transformers import PreTrainedTokenizerFast

from check import ROWS, compare

if len(sys.argv) > 1:
    model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1])
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
else:
    config = BertConfig(vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    model = BertForSequenceClassification(config)
    words = BertWordPieceTokenizer()
    words.train_from_iterator(['Where is my parcel?', 'I was charged twice for my order'], vocab_size=1000)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words._tokenizer, pad_token='[PAD]')

path = Path('models/bert/1/model.onnx')
path.parent.mkdir(parents=True, exist_ok=True)
tokenizer.save_pretrained('models/bert')
axes = {0: 'batch', 1: 'sequence'}
torch.onnx.export(
    model.eval(),
    kwargs={'input_ids': torch.ones(2, 8, dtype=torch.int64), 'attention_mask': torch.ones(2, 8, dtype=torch.int64)},
    f=path,
    input_names=['input_ids', 'attention_mask'],
    output_names=['logits'],
    dynamic_shapes={'input_ids': axes, 'attention_mask': axes},
    dynamo=True,
    external_data=False,
    verbose=False,
)


def answers(ids, mask):
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).logits.numpy()


random = np.random.default_rng(0)
ids = random.integers(0, model.config.vocab_size, (ROWS, 12))
mask = (np.arange(12) < random.integers(1, 13, (ROWS, 1))).astype('int64')
texts = {'full': [ids, np.ones_like(mask)], 'padded': [ids * mask, mask], 'one token': [ids[:, :1], mask[:, :1]]}
compare(path, [(kind, inputs, lambda inputs=inputs: answers(*inputs)) for kind, inputs in texts.items()])
