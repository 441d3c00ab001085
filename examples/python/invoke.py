"""Stands for the event source mapping: hands results to consumer.py, and deletes those that it does not hand back."""

import os

import boto3

from consumer import handler

sqs = boto3.client('sqs')
queue = os.environ['RESULT_QUEUE']

while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=5).get('Messages'):
    records = [{'messageId': message['MessageId'], 'body': message['Body']} for message in messages]
    response = handler({'Records': records}, None)
    handed_back = {failure['itemIdentifier'] for failure in response['batchItemFailures']}
    for message in messages:
        if message['MessageId'] not in handed_back:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message['ReceiptHandle'])
