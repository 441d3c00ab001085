import { z } from 'zod';
import { parseIfJson } from '../../lambda/core/json.ts';
import type { Received, Sent } from './exchange.ts';
import type { DemoMessage } from './messages.ts';

/** What came of an exchange, checked message by message against what was sent. */
export interface Assessment {
  readonly answered: number;
  /** Error results by code. */
  readonly errors: Readonly<Record<string, number>>;
  readonly missing: number;
  readonly duplicates: number;
  /** Results under an ID that was not sent, or that answer another request than the one sent under it. */
  readonly wrongId: number;
  /** Share of digits whose label was right, of all digits sent. */
  readonly accuracy: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** What is looked at of a result. */
const RESULT = z.object({
  message_id: z.string(),
  id: z.string().optional(),
  code: z.string().optional(),
  outputs: z.array(z.object({ name: z.string(), data: z.array(z.unknown()) })).optional(),
});
type Result = z.infer<typeof RESULT>;

export function assess(
  messages: readonly DemoMessage[],
  sent: readonly Sent[],
  received: readonly Received[],
): Assessment {
  const expected = new Map(sent.map((one) => [one.messageId, one]));
  const seen = new Set<string>();
  const errors: Record<string, number> = {};
  const latencies: number[] = [];
  let duplicates = 0;
  let wrongId = 0;
  let right = 0;
  for (const { messageId, body, writtenAtMs } of received) {
    const request = expected.get(messageId ?? '');
    const message = messages[request?.index ?? -1];
    const { data: result } = RESULT.safeParse(parseIfJson(body));
    if (
      request === undefined ||
      message === undefined ||
      result === undefined ||
      !answers(result, request.messageId, message)
    ) {
      wrongId += 1;
    } else if (seen.has(request.messageId)) {
      duplicates += 1;
    } else {
      seen.add(request.messageId);
      latencies.push(writtenAtMs - request.sentAtMs);
      if (result.code !== undefined) errors[result.code] = (errors[result.code] ?? 0) + 1;
      if (message.label !== undefined && labelIn(result) === message.label) right += 1;
    }
  }
  latencies.sort((a, b) => a - b);
  return {
    answered: seen.size,
    errors: Object.fromEntries(Object.entries(errors).toSorted()),
    missing: sent.length - seen.size,
    duplicates,
    wrongId,
    accuracy: right / messages.filter(({ label }) => label !== undefined).length,
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
  };
}

/** Seconds from the first request sent to the last result written. */
export function secondsOf(sent: readonly Sent[], received: readonly Received[]): number {
  const first = sent.reduce((earliest, { sentAtMs }) => Math.min(earliest, sentAtMs), Number.POSITIVE_INFINITY);
  const last = received.reduce((latest, { writtenAtMs }) => Math.max(latest, writtenAtMs), first);
  return (last - first) / 1000;
}

/** A body that could not be read has no id to give back; every other result carries its request's own. */
function answers(result: Result, messageId: string, message: DemoMessage): boolean {
  return (
    result.message_id === messageId &&
    (result.id === undefined ? message.label === undefined : result.id === message.id)
  );
}

function labelIn(result: Result): unknown {
  return result.outputs?.find(({ name }) => name === 'label')?.data[0];
}

/** The value that a share `q` of the sorted `values` does not exceed. */
function quantile(values: readonly number[], q: number): number {
  return values[Math.max(0, Math.ceil(values.length * q) - 1)] ?? 0;
}
