"""Sends requests, ten messages in a call."""

import json
import os

import boto3

sqs = boto3.client('sqs')
rows = [[5.1, 3.5, 1.4, 0.2], [6.2, 2.9, 4.3, 1.3], [7.7, 3.8, 6.7, 2.2], ['seven', 3.8, 6.7, 2.2]]
requests = [{'id': f'flower-{number}', 'model_name': 'iris', 'instances': [row]} for number, row in enumerate(rows)]

for first in range(0, len(requests), 10):
    entries = [
        {'Id': str(position), 'MessageBody': json.dumps(request)}
        for position, request in enumerate(requests[first : first + 10], first)
    ]
    answer = sqs.send_message_batch(QueueUrl=os.environ['REQUEST_QUEUE'], Entries=entries)
    for sent in answer['Successful']:
        print(requests[int(sent['Id'])]['id'], 'is', sent['MessageId'])
    for refused in answer.get('Failed', []):
        raise RuntimeError(f"{requests[int(refused['Id'])]['id']} was not taken: {refused['Code']}")
