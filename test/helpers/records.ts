import type { MessageRecord } from '../../lambda/core/record.ts';

const STANDARD_QUEUE = 'arn:aws:sqs:eu-central-1:123456789012:requests';
const FIFO_QUEUE = 'arn:aws:sqs:eu-central-1:123456789012:requests.fifo';

/** The message ID of the record at `index` of an event made here. */
export function messageIdOf(index: number): string {
  return `059f36b4-87a3-44ab-83d2-${index.toString(16).padStart(12, '0')}`;
}

/** A record of a standard queue. A `body` that is not a string is sent as JSON. */
export function standardRecord(body: unknown, overrides: Partial<MessageRecord> = {}): MessageRecord {
  return {
    messageId: messageIdOf(0),
    receiptHandle: 'AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    attributes: { ApproximateReceiveCount: '1', SentTimestamp: '1545082649183' },
    messageAttributes: {},
    eventSourceARN: STANDARD_QUEUE,
    ...overrides,
  };
}

/** One standard record per body, the message IDs numbered by {@link messageIdOf}. */
export function standardRecords(bodies: readonly unknown[]): MessageRecord[] {
  return bodies.map((body, index) => standardRecord(body, { messageId: messageIdOf(index) }));
}

/** A record of a FIFO queue in message group `group`. */
export function fifoRecord(group: string, body: unknown, overrides: Partial<MessageRecord> = {}): MessageRecord {
  return standardRecord(body, {
    attributes: { ApproximateReceiveCount: '1', SentTimestamp: '1545082649183', MessageGroupId: group },
    eventSourceARN: FIFO_QUEUE,
    ...overrides,
  });
}

/** One FIFO record per `[group, body]`, the message IDs numbered by {@link messageIdOf}. */
export function fifoRecords(entries: readonly (readonly [group: string, body: unknown])[]): MessageRecord[] {
  return entries.map(([group, body], index) => fifoRecord(group, body, { messageId: messageIdOf(index) }));
}

/** Fields of a request besides its inputs, or fields that spoil it. */
export type RequestFields = Readonly<Record<string, unknown>>;

/** The body of a request to `lineModel`: one row per value. */
export function lineRequest(values: readonly number[], fields: RequestFields = {}): RequestFields {
  return { inputs: [{ name: 'x', datatype: 'FP32', shape: [values.length, 1], data: values }], ...fields };
}

/** One row of a request to `sumModel`. */
export interface SumRow {
  readonly left: readonly number[];
  readonly right: readonly number[];
  readonly bias: number;
}

/** The body of a request to `sumModel`; every row holds the same number of values. */
export function sumRequest(rows: readonly SumRow[], fields: RequestFields = {}): RequestFields {
  const matrix = [rows.length, rows[0]?.left.length ?? 0];
  return {
    inputs: [
      { name: 'left', datatype: 'FP32', shape: matrix, data: rows.flatMap(({ left }) => left) },
      { name: 'right', datatype: 'FP32', shape: matrix, data: rows.flatMap(({ right }) => right) },
      { name: 'bias', datatype: 'INT64', shape: [rows.length], data: rows.map(({ bias }) => bias) },
    ],
    ...fields,
  };
}

/** The body of a request to `tokensModel`: one row per list of tokens, all of one length. */
export function tokensRequest(rows: readonly (readonly number[])[], fields: RequestFields = {}): RequestFields {
  const matrix = [rows.length, rows[0]?.length ?? 0];
  return {
    inputs: [
      { name: 'tokens', datatype: 'INT64', shape: matrix, data: rows.flat() },
      { name: 'offset', datatype: 'FP32', shape: [rows.length], data: rows.map((_, row) => row / 2) },
      { name: 'mask', datatype: 'BOOL', shape: matrix, data: rows.flatMap((row) => row.map(() => true)) },
    ],
    ...fields,
  };
}
