import { InferenceSession, Tensor } from 'onnxruntime-node';
import { turnRuntimeTelemetryOff } from '../../lambda/onnx/session.ts';
import type { Message } from '../workload/messages.ts';
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
  const longest = rows.reduce((most, row) => (row.data.length > most.data.length ? row : most));
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
