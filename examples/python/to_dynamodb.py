"""Writes each answer on the result queue to a table of DynamoDB, under a key that makes it safe to write twice."""

import json
import os

import boto3

from results import answers

sqs, dynamodb = boto3.client('sqs'), boto3.resource('dynamodb')
queue = os.environ['RESULT_QUEUE']
table = dynamodb.Table('scores')
try:
    dynamodb.create_table(
        TableName=table.name,
        KeySchema=[{'AttributeName': 'key', 'KeyType': 'HASH'}],
        AttributeDefinitions=[{'AttributeName': 'key', 'AttributeType': 'S'}],
        BillingMode='PAY_PER_REQUEST',
    )
except dynamodb.meta.client.exceptions.ResourceInUseException:
    pass  # An earlier run made it.
table.wait_until_exists()

while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=5).get('Messages'):
    with table.batch_writer(overwrite_by_pkeys=['key']) as batch:
        for message in messages:
            for key, answer in answers(message['Body']):
                batch.put_item({'key': key, 'request': answer.get('id'), 'answer': json.dumps(answer)})
    for message in messages:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message['ReceiptHandle'])
print(*sorted(item['request'] for item in table.scan()['Items']))
