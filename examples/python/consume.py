"""Handles the results on the queue, until none comes for five seconds."""

import os

import boto3

from results import answers, handle

sqs = boto3.client('sqs')
queue = os.environ['RESULT_QUEUE']

while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=5).get('Messages'):
    for message in messages:
        for _, answer in answers(message['Body']):
            handle(answer)
    sqs.delete_message_batch(
        QueueUrl=queue,
        Entries=[{'Id': str(n), 'ReceiptHandle': message['ReceiptHandle']} for n, message in enumerate(messages)],
    )
