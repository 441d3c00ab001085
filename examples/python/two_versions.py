"""Splits requests between two versions of a model, and compares both in the shadow."""

import hashlib
import json
import os

import boto3

from results import answers

SHARE_OF_2 = 0.25
sqs = boto3.client('sqs')


def version_of(key):
    """Returns the same version for the same key, and '2' for SHARE_OF_2 of all keys."""
    place = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) / 2**64
    return '2' if place < SHARE_OF_2 else '1'


def request(key, version):
    return {'id': key, 'model_name': 'iris', 'model_version': version, 'instances': [[5.1, 3.5, 1.4, 0.2]]}


customers = [f'customer-{number}' for number in range(100)]
# Split, one request in a message. Shadow, both versions in one message: the answers are in the same order.
split = [request(customer, version_of(customer)) for customer in customers]
shadow = [[request(customer, '1'), request(customer, '2')] for customer in customers]
sent = [sqs.send_message(QueueUrl=os.environ['REQUEST_QUEUE'], MessageBody=json.dumps(body)) for body in split + shadow]
waiting = {message['MessageId'] for message in sent}

versions, differing = [], 0
while waiting:
    received = sqs.receive_message(QueueUrl=os.environ['RESULT_QUEUE'], MaxNumberOfMessages=10, WaitTimeSeconds=20)
    for message in received.get('Messages', []):
        used, *compared = [answer for _, answer in answers(message['Body'])]
        if used['message_id'] not in waiting:
            continue
        waiting.remove(used['message_id'])
        if compared:
            differing += used['predictions'] != compared[0]['predictions']
        else:
            versions.append(used['model_version'])
        sqs.delete_message(QueueUrl=os.environ['RESULT_QUEUE'], ReceiptHandle=message['ReceiptHandle'])
print(versions.count('2'), 'of', len(versions), 'by version 2;', differing, 'answers differ')
