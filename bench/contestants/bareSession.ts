import type { SQSRecord } from 'aws-lambda';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { turnRuntimeTelemetryOff } from '../../lambda/onnx/session.ts';
import { toBase64 } from '../workload/messages.ts';

/** Creates an ONNX Runtime session on this thread. @param provider execution provider of ONNX Runtime */
export function createBareSession(path: string, provider: string): Promise<InferenceSession> {
  turnRuntimeTelemetryOff();
  return InferenceSession.create(path, { executionProviders: [provider] });
}

/** Scores one binary record without batching, as a simple handler would. @returns the text of the answer */
export async function scoreBare(
  { messageId, body }: SQSRecord,
  model: string,
  session: InferenceSession,
): Promise<string> {
  const { id, inputs, raw_input_contents: raw } = JSON.parse(body) as BareRequest;
  const feeds = Object.fromEntries(inputs.map((input, index) => [input.name, toTensor(input, raw[index] as string)]));
  const outputs = Object.entries(await session.run(feeds));
  return JSON.stringify({
    message_id: messageId,
    id,
    model_name: model,
    model_version: '1',
    outputs: outputs.map(([name, { dims }]) => ({ name, datatype: 'FP32', shape: dims })),
    raw_output_contents: outputs.map(([, { data }]) => toBase64(data as Float32Array)),
  });
}

interface BareInput {
  readonly name: string;
  readonly datatype: string;
  readonly shape: number[];
}

interface BareRequest {
  readonly id: string;
  readonly inputs: readonly BareInput[];
  readonly raw_input_contents: readonly string[];
}

function toTensor({ datatype, shape }: BareInput, base64: string): Tensor {
  const { buffer } = new Uint8Array(Buffer.from(base64, 'base64'));
  if (datatype === 'INT64') return new Tensor('int64', new BigInt64Array(buffer), shape);
  return new Tensor('float32', new Float32Array(buffer), shape);
}
