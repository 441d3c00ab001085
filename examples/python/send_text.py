"""Sends texts to the model of bert.py, which has a tokenizer."""

import json
import os

import boto3

sqs = boto3.client('sqs')
texts = ['Where is my parcel?', 'I was charged twice']
requests = [{'id': f'text-{number}', 'model_name': 'bert', 'text': text} for number, text in enumerate(texts)]
sqs.send_message(QueueUrl=os.environ['REQUEST_QUEUE'], MessageBody=json.dumps(requests))
print(*(request['id'] for request in requests))
