import type { SQSRecord } from 'aws-lambda';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { turnRuntimeTelemetryOff } from '../../lambda/onnx/session.ts';
import { type Encoding, toBase64, toNumbers } from '../workload/messages.ts';

/** Creates an ONNX Runtime session on this thread. @param provider execution provider of ONNX Runtime */
export function createBareSession(path: string, provider: string): Promise<InferenceSession> {
  turnRuntimeTelemetryOff();
  return InferenceSession.create(path, { executionProviders: [provider] });
}

function tensorOfBytes(datatype: string, { buffer }: Uint8Array<ArrayBuffer>, shape: number[]): Tensor {
  if (datatype === 'INT64') return new Tensor('int64', new BigInt64Array(buffer), shape);
  return new Tensor('float32', new Float32Array(buffer), shape);
}

/** Scores one record without batching, as a simple handler would. @returns the text of the answer */
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
  return JSON.stringify(answerOf({ message_id: messageId, id, model_name: model }, outputs, encoding));
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
  if (base64 !== undefined) return tensorOfBytes(datatype, new Uint8Array(Buffer.from(base64, 'base64')), shape);
  if (datatype === 'INT64') return new Tensor('int64', BigInt64Array.from(data, BigInt), shape);
  return new Tensor('float32', Float32Array.from(data), shape);
}

interface BareOutput {
  readonly described: { readonly name: string; readonly datatype: string; readonly shape: readonly number[] };
  readonly data: Float32Array;
}

function answerOf(of: object, outputs: readonly BareOutput[], encoding: Encoding): object {
  const head = { ...of, model_version: '1' };
  if (encoding === 'json') {
    return { ...head, outputs: outputs.map(({ described, data }) => ({ ...described, data: toNumbers(data) })) };
  }
  return {
    ...head,
    outputs: outputs.map(({ described }) => described),
    raw_output_contents: outputs.map(({ data }) => toBase64(data)),
  };
}
