"""A Lambda function behind the result queue: the handler is consumer.handler."""

from results import answers, handle


def handler(event, _context):
    failed = []
    for record in event['Records']:
        try:
            for _, answer in answers(record['body']):
                handle(answer)
        except Exception as error:
            print('handed back', record['messageId'], repr(error))
            failed.append({'itemIdentifier': record['messageId']})
    return {'batchItemFailures': failed}
