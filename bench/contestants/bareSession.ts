import type { SQSRecord } from 'aws-lambda';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { turnRuntimeTelemetryOff } from '../../lambda/onnx/session.ts';
import { drawTypicalMessages, type Encoding, type Message, toBase64, toNumbers } from '../workload/messages.ts';
import type { InputTensor, Scenario } from '../workload/scenarios.ts';
import type { Parts } from './partitions.ts';

export type Feeds = Readonly<Record<string, Tensor>>;

/** ONNX Runtime on this thread, with nothing around it. @param provider an execution provider of it */
export function createBareSession(path: string, provider: string): Promise<InferenceSession> {
  turnRuntimeTelemetryOff();
  return InferenceSession.create(path, { executionProviders: [provider] });
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
  const rowBytes = longest.data.byteLength;
  const bytes = new Uint8Array(rows.length * rowBytes);
  for (const [row, { data }] of rows.entries()) {
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), row * rowBytes);
  }
  return tensorOfBytes(longest.datatype, bytes, [rows.length, ...longest.shape.slice(1)]);
}

function tensorOfBytes(datatype: string, { buffer }: Uint8Array<ArrayBuffer>, shape: number[]): Tensor {
  if (datatype === 'INT64') return new Tensor('int64', new BigInt64Array(buffer), shape);
  if (datatype === 'UINT8') return new Tensor('uint8', new Uint8Array(buffer), shape);
  return new Tensor('float32', new Float32Array(buffer), shape);
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
  if (datatype === 'UINT8') return new Tensor('uint8', Uint8Array.from(data), shape);
  return new Tensor('float32', Float32Array.from(data), shape);
}

interface BareOutput {
  readonly described: { readonly name: string; readonly datatype: string; readonly shape: readonly number[] };
  readonly data: Float32Array;
}

/** An Open Inference Protocol v2 response. */
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

/**
 * The work that no scorer of these bodies can do without, and nothing else: JSON.parse of every body, every run, and
 * JSON.stringify of every result. Tensors and result objects are made beforehand, which is not timed.
 *
 * @param parts which messages are run together
 */
export async function prepareLimit(
  session: InferenceSession,
  model: string,
  messages: readonly Message[],
  records: readonly SQSRecord[],
  encoding: Encoding,
  parts: Parts,
): Promise<() => Promise<void>> {
  const batches = stackParts(parts, messages);
  const results: object[] = [];
  for (const [batch, part] of parts.entries()) {
    const outputs = Object.entries(await session.run(batches[batch] as Feeds));
    for (const [row, index] of part.entries()) {
      const rows = outputs.map(([name, { dims, data }]) => {
        const width = data.length / part.length;
        return {
          described: { name, datatype: 'FP32', shape: [1, ...dims.slice(1)] },
          data: (data as Float32Array).slice(row * width, (row + 1) * width),
        };
      });
      const of = { message_id: records[index]?.messageId, id: messages[index]?.id, model_name: model };
      results.push(answerOf(of, rows, encoding));
    }
  }
  return async () => {
    let characters = 0;
    for (const { body } of records) JSON.parse(body);
    for (const feeds of batches) await session.run(feeds);
    for (const result of results) characters += JSON.stringify(result).length;
    if (characters === 0) throw new Error('expected results to write, got none');
  };
}

/** The tensors of every run. */
export function stackParts(parts: Parts, messages: readonly Message[]): Feeds[] {
  return parts.map((part) => stackMessages(part.map((index) => messages[index] as Message)));
}

/** What was found by running the model at several sizes. */
export interface Sweep {
  /** The smallest size within 2 % of the most rows per second: of equals, the one that takes the least memory. */
  readonly bestRows: number;
  /** Rows per second at the best size, divided by those at one row. */
  readonly gain: number;
  readonly rowsPerSecond: number;
}

const SIZES = Array.from({ length: 11 }, (_, power) => 2 ** power);
const TIE = 0.02;
const ROUNDS = 5;
const TRIED_FOR_MS = 30;
/** Sizes above one that takes longer are not tried. */
const LONGEST_RUN_MS = 300;

/** A size, and the fastest of its runs: whatever else the machine does only makes runs slower. */
interface Trial {
  readonly rows: number;
  readonly feeds: Feeds;
  fastestMs: number;
}

/** Runs the model at 1, 2, 4, … rows of typical length, in rounds one after the other. */
export async function sweep(session: InferenceSession, scenario: Scenario): Promise<Sweep> {
  const trials: Trial[] = [];
  for (const rows of SIZES) {
    const feeds = stackMessages(drawTypicalMessages(scenario, rows));
    const trial = { rows, feeds, fastestMs: Number.POSITIVE_INFINITY };
    await session.run(feeds);
    await runFor(TRIED_FOR_MS, session, trial);
    trials.push(trial);
    if (trial.fastestMs > LONGEST_RUN_MS) break;
  }
  for (let round = 1; round < ROUNDS; round++) {
    for (const trial of trials) await runFor(TRIED_FOR_MS, session, trial);
  }
  const rate = ({ rows, fastestMs }: Trial): number => (1000 * rows) / fastestMs;
  const max = Math.max(...trials.map(rate));
  const best = trials.find((trial) => rate(trial) >= max * (1 - TIE)) as Trial;
  return { bestRows: best.rows, gain: rate(best) / rate(trials[0] as Trial), rowsPerSecond: rate(best) };
}

async function runFor(ms: number, session: InferenceSession, trial: Trial): Promise<void> {
  const until = performance.now() + ms;
  do {
    const startedAt = performance.now();
    await session.run(trial.feeds);
    trial.fastestMs = Math.min(trial.fastestMs, performance.now() - startedAt);
  } while (performance.now() < until);
}
