import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { PRICES } from '../../infra/priceList.ts';
import type { Telemetry } from '../../lambda/aws/telemetry.ts';
import { parseIfJson } from '../../lambda/core/json.ts';

import type { InvocationReport } from '../local/localMapping.ts';
import { lambdaDollars } from '../profile/settings/invocationCosts.ts';
import type { ScoredDigit } from './demoReport.ts';
import type { Received, Sent } from './exchange.ts';

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

/** Of what came back, what a person is shown. */
export interface DemoSamples {
  /** Different ones. */
  readonly digits: readonly ScoredDigit[];
  /** A result as it was written. */
  readonly result: string | undefined;
  readonly refused: { readonly code: string; readonly error: string } | undefined;
}

const MAX_DIGITS = 3;

const SCORES = z.object({
  id: z.string(),
  outputs: z.tuple([
    z.object({ name: z.literal('label'), data: z.tuple([z.number()]) }),
    z.object({ name: z.literal('probabilities'), data: z.array(z.number()) }),
  ]),
});
const REFUSAL = z.object({ id: z.string(), code: z.string(), error: z.string() });

/** @param results their bodies */
export function samplesOf(messages: readonly DemoMessage[], results: readonly string[]): DemoSamples {
  const pixelsById = new Map(messages.map(({ id, pixels }) => [id, pixels]));
  const digits = new Map<number, ScoredDigit>();
  let result: string | undefined;
  let refused: DemoSamples['refused'];
  for (const body of results) {
    const value = parseIfJson(body);
    const { data: scores } = SCORES.safeParse(value);
    refused ??= REFUSAL.safeParse(value).data;
    if (scores === undefined) continue;
    result ??= body;
    const [
      {
        data: [label],
      },
      { data: probabilities },
    ] = scores.outputs;
    const pixels = pixelsById.get(scores.id);
    const probability = probabilities[label];
    if (pixels === undefined || probability === undefined || digits.has(label)) continue;
    digits.set(label, { pixels, label, probability });
    if (digits.size === MAX_DIGITS && refused !== undefined) break;
  }
  return { digits: [...digits.values()].slice(0, MAX_DIGITS), result, refused };
}

/** One message to send, and what its result must say. */
export interface DemoMessage {
  readonly id: string;
  readonly body: string;
  /** The digit's true label; undefined for a message that is broken on purpose. */
  readonly label: number | undefined;
  /** The digit as it is sent. */
  readonly pixels?: readonly number[];
}

interface Sample {
  readonly pixels: readonly number[];
  readonly label: number;
}

/** The held-out digits, repeated to `count` messages, with a dozen broken ones spread among them. */
export async function demoMessages(samplesFile: URL, count: number): Promise<DemoMessage[]> {
  const samples = parseSamples(await readFile(samplesFile, 'utf8'));
  const digits = Array.from({ length: count }, (_, index): DemoMessage => {
    const { pixels, label } = samples[index % samples.length] as Sample;
    const id = `digit-${index}`;
    return { id, body: requestFor(id, { data: pixels }), label, pixels };
  });
  const broken = brokenMessages(samples[0] as Sample);
  const every = Math.max(1, Math.floor(count / broken.length));
  return spread(digits, broken, every);
}

function parseSamples(text: string): Sample[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

/** A request for the digits model; `input` and `request` say what differs from a plain one. */
function requestFor(id: string, input: object, request: object = {}): string {
  const image = { name: 'image', datatype: 'FP32', shape: [1, 64], ...input };
  return JSON.stringify({ id, model_name: 'digits', inputs: [image], ...request });
}

function brokenMessages({ pixels }: Sample): DemoMessage[] {
  const withFirst = (value: unknown) => [value, ...pixels.slice(1)];
  const image = { name: 'image', datatype: 'FP32', shape: [1, 64], data: pixels };
  const bodies: [what: string, body: (id: string) => string][] = [
    ['not-json', () => 'seven, I think'],
    ['nan', (id) => requestFor(id, { data: pixels }).replace('"data":[0', '"data":[NaN')],
    ['no-request', () => '42'],
    ['wrong-shape', (id) => requestFor(id, { shape: [1, 63], data: pixels.slice(1) })],
    ['short-data', (id) => requestFor(id, { data: pixels.slice(1) })],
    ['wrong-dtype', (id) => requestFor(id, { datatype: 'INT64', data: pixels })],
    ['null', (id) => requestFor(id, { data: withFirst(null) })],
    ['out-of-range', (id) => requestFor(id, { data: withFirst(1e39) })],
    ['unknown-model', (id) => requestFor(id, { data: pixels }, { model_name: 'letters' })],
    ['unknown-version', (id) => requestFor(id, { data: pixels }, { model_version: '99' })],
    ['unknown-input', (id) => requestFor(id, { name: 'picture', data: pixels })],
    ['doubled-input', (id) => requestFor(id, { data: pixels }, { inputs: [image, image] })],
  ];
  return bodies.map(([what, body]) => ({ id: `broken-${what}`, body: body(`broken-${what}`), label: undefined }));
}

function spread<T>(items: readonly T[], extra: readonly T[], every: number): T[] {
  const mixed: T[] = [];
  const left = [...extra];
  for (const [index, item] of items.entries()) {
    if (index % every === 0) mixed.push(...left.splice(0, 1));
    mixed.push(item);
  }
  return [...mixed, ...left];
}

/** Milliseconds that each stage took in all. */
export interface StageTimes {
  readonly decode: number;
  readonly stack: number;
  readonly run: number;
  readonly encode: number;
  readonly write: number;
}

export interface Tally {
  readonly microBatches: number;
  readonly meanRows: number;
  /** Share of the rows run that nobody sent. */
  readonly paddingShare: number;
  /** Micro-batches by the reason they were closed for. */
  readonly closed: Readonly<Record<string, number>>;
  readonly stagesMs: StageTimes;
}

interface Counts {
  rows: number;
  paddedRows: number;
  closed: Record<string, number>;
  stagesMs: { -readonly [stage in keyof StageTimes]: number };
}

/** Telemetry that counts instead of sending anything anywhere. */
export interface DemoTally extends Telemetry {
  /** What was counted since it was called last. */
  take(): Tally;
  /** Errors that were answered, in all. */
  errors(): number;
}

export function createTally(problem: (error: unknown) => void): DemoTally {
  let counts = nothing();
  let errors = 0;
  return {
    middlewares: [],
    outcomes(outcomes) {
      for (const outcome of outcomes) if (outcome.status === 'answered') errors += outcome.failures.length;
    },
    hostEnds: () => {},
    observer: {
      microBatch({ rows, paddedRows, closedBecause, stackMs, runMs, encodeMs }) {
        counts.rows += rows;
        counts.paddedRows += paddedRows;
        counts.closed[closedBecause] = (counts.closed[closedBecause] ?? 0) + 1;
        counts.stagesMs.stack += stackMs;
        counts.stagesMs.run += runMs;
        counts.stagesMs.encode += encodeMs;
      },
      decoded: (decodeMs) => {
        counts.stagesMs.decode += decodeMs;
      },
      checked: () => {},
      batchMismatch: () => {},
      written: (writeMs) => {
        counts.stagesMs.write += writeMs;
      },
      runAbandoned: () => {},
      problem,
    },
    errors: () => errors,
    take() {
      const { rows, paddedRows, closed, stagesMs } = counts;
      counts = nothing();
      const microBatches = Object.values(closed).reduce((sum, count) => sum + count, 0);
      const meanRows = microBatches === 0 ? 0 : rows / microBatches;
      return { microBatches, meanRows, paddingShare: paddedRows === 0 ? 0 : 1 - rows / paddedRows, closed, stagesMs };
    },
  };
}

function nothing(): Counts {
  return { rows: 0, paddedRows: 0, closed: {}, stagesMs: { decode: 0, stack: 0, run: 0, encode: 0, write: 0 } };
}

/** What went through the handler in one pass. */
interface Invoked {
  readonly invocations: readonly InvocationReport[];
  /** From the first request sent to the last result written. */
  readonly seconds: number;
  /** Of a message, and of a result, on average. */
  readonly messageBytes: number;
  readonly resultBytes: number;
  readonly packedResults: boolean;
  readonly maximumConcurrency: number;
}

/** The construct's default function. */
const FUNCTION = { memoryMb: 1769, architecture: 'arm64' } as const;

/**
 * US dollars for a million messages of one row: for the milliseconds that the invocations took on this machine, as if the
 * function took as long, their number, and the requests to SQS, the producer's and the consumer's among them.
 */
export function dollarsPerMillionRows({ invocations, seconds, maximumConcurrency, ...messages }: Invoked): number {
  const bySize = Map.groupBy(invocations, ({ records }) => records);
  const meanMs = (reports: readonly InvocationReport[]): number =>
    reports.reduce((sum, { durationMs }) => sum + durationMs, 0) / reports.length;
  const count = invocations.reduce((sum, { records }) => sum + records, 0);
  const course = {
    sizes: new Map([...bySize].map(([size, reports]) => [size, reports.length])),
    messages: count,
    invocations: invocations.length,
  };
  const invocation = { memoryMb: FUNCTION.memoryMb, msOf: (size: number) => meanMs(bySize.get(size) ?? []) };
  return lambdaDollars(course, invocation, {
    prices: PRICES,
    architecture: FUNCTION.architecture,
    messages: { requestsPerMessage: 1, ...messages },
    messagesPerSecond: count / seconds,
    maximumConcurrency,
  }).total;
}
