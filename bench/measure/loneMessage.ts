import type { SQSRecord } from 'aws-lambda';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import type { Batchscore } from '../contestants/batchscore.ts';
import { drawMessages, type Encoding, toBase64, toNumbers, toRecords } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import { takeTurns } from './contest.ts';
import { median } from './median.ts';

/** What a message costs that comes alone: medians. */
export interface LoneMessageFigures {
  readonly scenario: string;
  readonly encoding: Encoding;
  /** JSON.parse, tensors, `session.run` on the same thread, JSON.stringify. */
  readonly bareMicroseconds: number;
  /** One invocation of the handler. */
  readonly batchscoreMicroseconds: number;
  readonly overMicroseconds: number;
  readonly overPercent: number;
}

const MOST_MESSAGES = 200;

export async function measureLoneMessage(
  scenario: Scenario,
  encoding: Encoding,
  session: InferenceSession,
  batchscore: Batchscore,
): Promise<LoneMessageFigures> {
  const count = Math.min(MOST_MESSAGES, Math.ceil(scenario.oneByOneMessages / 5));
  const records = toRecords(drawMessages(scenario, count), encoding);
  const [bareMs = 0, batchscoreMs = 0] = await takeTurns(
    [
      () => medianMs(records, (record) => scoreBare(record, encoding, scenario.name, session)),
      () => medianMs(records, (record) => batchscore.invoke([record])),
    ],
    scenario.rounds,
  );
  return {
    scenario: scenario.name,
    encoding,
    bareMicroseconds: bareMs * 1000,
    batchscoreMicroseconds: batchscoreMs * 1000,
    overMicroseconds: (batchscoreMs - bareMs) * 1000,
    overPercent: (batchscoreMs / bareMs - 1) * 100,
  };
}

async function medianMs(records: readonly SQSRecord[], score: (record: SQSRecord) => Promise<unknown>) {
  const takenMs: number[] = [];
  for (const record of records) {
    const startedAt = performance.now();
    await score(record);
    takenMs.push(performance.now() - startedAt);
  }
  return median(takenMs);
}

/** What one writes who needs no batches. @returns the text of the answer */
async function scoreBare(
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
  if (datatype === 'INT64') {
    return new Tensor(
      'int64',
      bytes === undefined ? BigInt64Array.from(data, BigInt) : new BigInt64Array(bytes.buffer),
      shape,
    );
  }
  return new Tensor('float32', bytes === undefined ? Float32Array.from(data) : new Float32Array(bytes.buffer), shape);
}
