"""Sends many requests in a message, in binary."""

import base64
import json
import os
import struct

import boto3

sqs = boto3.client('sqs')


def request(order, values):
    return {
        'id': order,
        'model_name': 'iris',
        'inputs': [{'name': 'features', 'datatype': 'FP32', 'shape': [1, 4]}],
        'raw_input_contents': [base64.b64encode(struct.pack('<4f', *values)).decode()],
        'parameters': {'binary_data_output': False},
    }


def send(requests):
    for first in range(0, len(requests), 100):
        packed = requests[first : first + 100]
        message_id = sqs.send_message(QueueUrl=os.environ['REQUEST_QUEUE'], MessageBody=json.dumps(packed))['MessageId']
        for position, one in enumerate(packed):
            yield one['id'], message_id, position


for order, message_id, position in send([request(f'order-{n}', [5.1 + n, 3.5, 1.4, 0.2]) for n in range(3)]):
    print(order, 'is', message_id, position)
