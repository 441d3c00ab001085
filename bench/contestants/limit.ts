import type { SQSRecord } from 'aws-lambda';
import type { InferenceSession } from 'onnxruntime-node';
import { type Encoding, type Message, toBase64, toNumbers } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import { type Feeds, stackMessages } from './bareSession.ts';
import { leastPadding, type PartLimits } from './leastPadding.ts';
import type { Sweep } from './sweep.ts';

/** The work that no scorer of these bodies can do without, and nothing else. */
export interface Limit {
  /** Milliseconds of JSON.parse over every body, of every run, and of JSON.stringify over every result. */
  measureMs(): Promise<number>;
}

/** Builds the tensors and the result objects beforehand: that is not timed. */
export async function prepareLimit(
  session: InferenceSession,
  scenario: Scenario,
  messages: readonly Message[],
  records: readonly SQSRecord[],
  encoding: Encoding,
  found: Sweep,
  maxElements: number,
): Promise<Limit> {
  const { parts, batches } = await fastestOf(
    session,
    partitions(scenario, messages, found, { maxRows: found.bestRows, maxElements }),
    messages,
  );
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

/** A partition, as the indexes of the messages that are run together. */
type Parts = readonly (readonly number[])[];

/** One into parts of the best size; where lengths differ, those of least padding into more and more parts. */
function partitions(
  { lengths }: Scenario,
  messages: readonly Message[],
  { bestRows }: Sweep,
  limits: PartLimits,
): Parts[] {
  const fewest = Math.ceil(messages.length / bestRows);
  if (lengths === undefined) {
    const indexes = Array.from(messages.keys());
    return [Array.from({ length: fewest }, (_, part) => indexes.slice(part * bestRows, (part + 1) * bestRows))];
  }
  const most = Math.min(messages.length, MOST_PARTS_TIMES * fewest);
  const least = leastPadding(
    messages.map(({ length }) => length),
    limits,
    most,
  );
  const counts = Array.from({ length: MOST_PARTS_TIMES }, (_, times) => Math.min(most, (times + 1) * fewest));
  return counts.filter((count) => Number.isFinite(least.paddedElements(count))).map((count) => least.partition(count));
}

/** Partitions into more than so many times the fewest parts are not considered. */
const MOST_PARTS_TIMES = 8;

/** The partition whose runs take the least time, each tried once after a warm-up. */
async function fastestOf(
  session: InferenceSession,
  candidates: readonly Parts[],
  messages: readonly Message[],
): Promise<{ readonly parts: Parts; readonly batches: readonly Feeds[] }> {
  let fastest: { parts: Parts; batches: readonly Feeds[]; ms: number } | undefined;
  for (const parts of candidates) {
    const batches = parts.map((part) => stackMessages(part.map((index) => messages[index] as Message)));
    if (candidates.length === 1) return { parts, batches };
    if (fastest === undefined) for (const feeds of batches) await session.run(feeds);
    const startedAt = performance.now();
    for (const feeds of batches) await session.run(feeds);
    const ms = performance.now() - startedAt;
    if (fastest === undefined || ms < fastest.ms) fastest = { parts, batches, ms };
  }
  if (fastest === undefined) throw new Error('expected a partition under the limits, got none');
  return fastest;
}

async function resultsOf(
  session: InferenceSession,
  { name }: Scenario,
  batches: readonly Feeds[],
  parts: readonly (readonly number[])[],
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
