"""Reads the messages of the result queue."""

import json
from collections import Counter

import boto3

POINTER = 'software.amazon.payloadoffloading.PayloadS3Pointer'
s3 = boto3.client('s3')


def answers(body):
    """Yields each answer in the body of a message, with a key: its message ID and its position in that message."""
    document = json.loads(body)
    if isinstance(document, list) and document[0] == POINTER:
        where = document[1]
        document = json.loads(s3.get_object(Bucket=where['s3BucketName'], Key=where['s3Key'])['Body'].read())
    positions = Counter()
    for answer in flat(document):
        message_id = answer['message_id']
        yield f'{message_id}/{positions[message_id]}', answer
        positions[message_id] += 1


def flat(document):
    if isinstance(document, list):
        for one in document:
            yield from flat(one)
    else:
        yield document


def handle(answer):
    """Your code. An answer may come twice, with the same key."""
    name = answer.get('id', answer['message_id'])
    if 'code' in answer:
        print(name, answer['code'], answer['error'])
    elif 'predictions' in answer:
        print(name, [prediction['label'] for prediction in answer['predictions']][:3])
    else:
        print(name, answer['outputs'][0]['data'])
