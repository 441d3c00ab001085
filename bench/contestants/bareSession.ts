import type { SQSRecord } from 'aws-lambda';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { turnRuntimeTelemetryOff } from '../../lambda/onnx/session.ts';
import type { Message } from '../workload/messages.ts';

import { type Encoding, toBase64, toNumbers } from '../workload/messages.ts';

import type { InputTensor } from '../workload/scenarios.ts';

export type Feeds = Readonly<Record<string, Tensor>>;

/**
 * ONNX Runtime on this thread, with nothing around it.
 *
 * @param executionProviders as ONNX Runtime takes them. @default its processor
 */
export function createBareSession(
  path: string,
  executionProviders: InferenceSession.SessionOptions['executionProviders'] = ['cpu'],
): Promise<InferenceSession> {
  turnRuntimeTelemetryOff();
  return InferenceSession.create(path, { executionProviders });
}

/** The tensors of one run over the messages, each padded with zeros to the longest. */
export function stackMessages(messages: readonly Message[]): Feeds {
  const inputs = messages[0]?.inputs ?? [];
  return Object.fromEntries(
    inputs.map(({ name }, index) => [name, stackRows(messages.map((message) => message.inputs[index] as InputTensor))]),
  );
}

function stackRows(rows: readonly InputTensor[]): Tensor {
  const longest = rows.reduce((max, row) => (row.data.length > max.data.length ? row : max));
  const width = longest.data.length;
  const shape = [rows.length, ...longest.shape.slice(1)];
  if (longest.data instanceof BigInt64Array) {
    const data = new BigInt64Array(rows.length * width);
    for (const [row, input] of rows.entries()) data.set(input.data as BigInt64Array, row * width);
    return new Tensor('int64', data, shape);
  }
  if (longest.data instanceof Uint8Array) {
    const data = new Uint8Array(rows.length * width);
    for (const [row, input] of rows.entries()) data.set(input.data as Uint8Array, row * width);
    return new Tensor('uint8', data, shape);
  }
  const data = new Float32Array(rows.length * width);
  for (const [row, input] of rows.entries()) data.set(input.data as Float32Array, row * width);
  return new Tensor('float32', data, shape);
}

/** What one writes who needs no batches. @returns the text of the answer */
export async function scoreBare(
  { messageId, body }: SQSRecord,
  encoding: Encoding,
  model: string,
  session: InferenceSession,
): Promise<string> {
  const { id, inputs, raw_input_contents: raw } = JSON.parse(body) as BareRequest;
  const feeds: Record<string, Tensor> = {};
  for (const [index, input] of inputs.entries()) feeds[input.name] = toTensor(input, raw?.[index]);
  const outputs = Object.entries(await session.run(feeds)).map(([name, { dims, data }]) => ({
    described: { name, datatype: 'FP32', shape: dims },
    data: data as Float32Array,
  }));
  const head = { message_id: messageId, id, model_name: model, model_version: '1' };
  if (encoding === 'json') {
    return JSON.stringify({
      ...head,
      outputs: outputs.map(({ described, data }) => ({ ...described, data: toNumbers(data) })),
    });
  }
  return JSON.stringify({
    ...head,
    outputs: outputs.map(({ described }) => described),
    raw_output_contents: outputs.map(({ data }) => toBase64(data)),
  });
}

interface BareInput {
  readonly name: string;
  readonly datatype: string;
  readonly shape: number[];
  readonly data?: number[];
}

interface BareRequest {
  readonly id: string;
  readonly inputs: readonly BareInput[];
  readonly raw_input_contents?: readonly string[];
}

function toTensor({ datatype, shape, data = [] }: BareInput, base64: string | undefined): Tensor {
  const bytes = base64 === undefined ? undefined : new Uint8Array(Buffer.from(base64, 'base64'));
  switch (datatype) {
    case 'INT64':
      return new Tensor('int64', bytes ? new BigInt64Array(bytes.buffer) : BigInt64Array.from(data, BigInt), shape);
    case 'UINT8':
      return new Tensor('uint8', bytes ?? Uint8Array.from(data), shape);
    default:
      return new Tensor('float32', bytes ? new Float32Array(bytes.buffer) : Float32Array.from(data), shape);
  }
}
