"""Sends a body over 1 MiB through the payload bucket."""

import json
import os
import random
import uuid

import boto3

POINTER = 'software.amazon.payloadoffloading.PayloadS3Pointer'
sqs, s3 = boto3.client('sqs'), boto3.client('s3')
bucket, key = os.environ['PAYLOAD_BUCKET'], f'requests/{uuid.uuid4()}'

meadows = [
    {'id': f'meadow-{n}', 'model_name': 'iris', 'instances': [[random.uniform(0, 8) for _ in range(4)] for _ in range(8000)]}
    for n in range(2)
]
body = json.dumps(meadows)
s3.put_object(Bucket=bucket, Key=key, Body=body)
pointer = json.dumps([POINTER, {'s3BucketName': bucket, 's3Key': key}])
sent = sqs.send_message(
    QueueUrl=os.environ['REQUEST_QUEUE'],
    MessageBody=pointer,
    MessageAttributes={'ExtendedPayloadSize': {'DataType': 'Number', 'StringValue': str(len(body))}},
)
print(len(body) > 2**20, sent['MessageId'])
