/** Powertools' batch utility with one session of onnxruntime-node: a run, and a message, for each record. */
import { createRequire } from 'node:module';
import { SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { InferenceSession, Tensor } from 'onnxruntime-node';

const { FIELD_MODEL, FIELD_PACKAGES, FIELD_RESULT_QUEUE } = process.env;
const { BatchProcessor, EventType, processPartialResponse } = createRequire(`${FIELD_PACKAGES}/`)(
  '@aws-lambda-powertools/batch',
);
const session = await InferenceSession.create(FIELD_MODEL, {
  extra: { session: { intra_op: { allow_spinning: '0' } } },
});
const sqs = new SQSClient();
const processor = new BatchProcessor(EventType.SQS);

async function scoreRecord({ messageId, body }) {
  const { inputs } = JSON.parse(body);
  const feeds = inputs.map(({ name, datatype, shape, data }) => [
    name,
    datatype === 'INT64' ? new Tensor('int64', data, shape) : new Tensor('float32', data, shape),
  ]);
  const values = await session.run(Object.fromEntries(feeds));
  const outputs = Object.entries(values).map(([name, { type, dims, data }]) => {
    const datatype = type === 'int64' ? 'INT64' : 'FP32';
    return { name, datatype, shape: dims, data: Array.from(data, Number) };
  });
  await sqs.send(
    new SendMessageCommand({
      QueueUrl: FIELD_RESULT_QUEUE,
      MessageBody: JSON.stringify({ message_id: messageId, model_name: 'model', model_version: '1', outputs }),
      MessageAttributes: { messageId: { DataType: 'String', StringValue: messageId } },
    }),
  );
}

export const handler = (event, context) => processPartialResponse(event, scoreRecord, processor, { context });
