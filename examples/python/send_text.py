"""Sends texts as tokens, with the tokenizer that bert.py saved."""

import base64
import json
import os

import boto3
import numpy as np
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained('bert-tokenizer')
sqs = boto3.client('sqs')
texts = ['Where is my parcel?', 'I was charged twice']

requests = []
for number, text in enumerate(texts):
    tokens = tokenizer(text, truncation=True, max_length=512)
    inputs = {name: np.array([tokens[name]], dtype='<i8') for name in ['input_ids', 'attention_mask']}
    requests.append({
        'id': f'text-{number}',
        'model_name': 'bert',
        'inputs': [{'name': name, 'datatype': 'INT64', 'shape': ids.shape} for name, ids in inputs.items()],
        'raw_input_contents': [base64.b64encode(ids.tobytes()).decode() for ids in inputs.values()],
        'parameters': {'binary_data_output': False},
    })
sqs.send_message(QueueUrl=os.environ['REQUEST_QUEUE'], MessageBody=json.dumps(requests))
print(*(request['inputs'][0]['shape'] for request in requests))
