"""boto3 by a line of JSON a call, `[service, operation, parameters]`, and a line for each answer: `{"value"}` or `{"error"}`."""
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import boto3

clients = {}
one_at_a_time = Lock()


def text_of(value):
    return value.read().decode() if hasattr(value, "read") else str(value)


def call(line):
    number, service, operation, parameters = json.loads(line)
    try:
        answer = {"value": getattr(clients[service], operation)(**parameters)}
    except Exception as error:
        answer = {"error": str(error)}
    text = json.dumps({"number": number, **answer}, default=text_of)
    with one_at_a_time:
        print(text, flush=True)


for service in ["cloudformation", "dynamodb", "lambda", "s3", "sqs", "stepfunctions"]:
    clients[service] = boto3.client(service)
with ThreadPoolExecutor(16) as pool:
    for line in sys.stdin:
        pool.submit(call, line)
