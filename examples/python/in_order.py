"""Sends requests of two message groups in turn, and prints the results of each group in the order of their arrival."""

import json
import os

import boto3

from results import answers

sqs = boto3.client('sqs')
requests, results = os.environ['FIFO_REQUESTS'], os.environ['FIFO_RESULTS']

for step in range(5):
    for customer in ['anna', 'ben']:
        name = f'{customer}-{step}'
        body = {'id': name, 'model_name': 'iris', 'instances': [[5.1 + step, 3.5, 1.4, 0.2]]}
        # An error of the call ends the loop: nothing of the group may overtake what was not sent.
        sqs.send_message(
            QueueUrl=requests, MessageBody=json.dumps(body), MessageGroupId=customer, MessageDeduplicationId=name
        )

received = []
while len(received) < 10:
    messages = sqs.receive_message(QueueUrl=results, MaxNumberOfMessages=10, WaitTimeSeconds=20).get('Messages', [])
    for message in messages:
        received += [answer['id'] for _, answer in answers(message['Body'])]
        sqs.delete_message(QueueUrl=results, ReceiptHandle=message['ReceiptHandle'])
for customer in ['anna', 'ben']:
    print(*(name for name in received if name.startswith(customer)))
