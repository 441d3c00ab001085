import type { SQSRecord } from 'aws-lambda';
import type { InferenceSession } from 'onnxruntime-node';
import { type Encoding, type Message, toBase64, toNumbers } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import type { Feeds } from './bareSession.ts';
import { type Parts, stackParts } from './partitions.ts';

/** The work that no scorer of these bodies can do without, and nothing else. */
export interface Limit {
  /** Milliseconds of JSON.parse over every body, of every run, and of JSON.stringify over every result. */
  measureMs(): Promise<number>;
}

/**
 * Builds the tensors and the result objects beforehand: that is not timed.
 *
 * @param parts which messages are run together
 */
export async function prepareLimit(
  session: InferenceSession,
  scenario: Scenario,
  messages: readonly Message[],
  records: readonly SQSRecord[],
  encoding: Encoding,
  parts: Parts,
): Promise<Limit> {
  const batches = stackParts(parts, messages);
  const results = await resultsOf(session, scenario, batches, parts, messages, records, encoding);
  return {
    async measureMs() {
      const startedAt = performance.now();
      let characters = 0;
      for (const { body } of records) JSON.parse(body);
      for (const feeds of batches) await session.run(feeds);
      for (const result of results) characters += JSON.stringify(result).length;
      const ms = performance.now() - startedAt;
      if (characters === 0) throw new Error('expected results to write, got none');
      return ms;
    },
  };
}

async function resultsOf(
  session: InferenceSession,
  { name }: Scenario,
  batches: readonly Feeds[],
  parts: Parts,
  messages: readonly Message[],
  records: readonly SQSRecord[],
  encoding: Encoding,
): Promise<object[]> {
  const results: object[] = [];
  for (const [batch, feeds] of batches.entries()) {
    const rowsOf = Object.entries(await session.run(feeds)).map(([output, { dims, data }]) => {
      const width = data.length / (dims[0] as number);
      const shape = [1, ...dims.slice(1)];
      return (row: number) => ({ output, shape, values: (data as Float32Array).slice(row * width, (row + 1) * width) });
    });
    for (const [row, index] of (parts[batch] as readonly number[]).entries()) {
      const outputs = rowsOf.map((rowAt) => rowAt(row));
      const described = outputs.map(({ output, shape }) => ({ name: output, datatype: 'FP32', shape }));
      const head = {
        message_id: (records[index] as SQSRecord).messageId,
        id: (messages[index] as Message).id,
        model_name: name,
        model_version: '1',
      };
      results.push(
        encoding === 'binary'
          ? { ...head, outputs: described, raw_output_contents: outputs.map(({ values }) => toBase64(values)) }
          : {
              ...head,
              outputs: described.map((output, at) => ({
                ...output,
                data: toNumbers((outputs[at] as { values: Float32Array }).values),
              })),
            },
      );
    }
  }
  return results;
}
