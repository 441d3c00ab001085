import { RESULTS_ATTRIBUTE } from '../../../lambda/core/record.ts';
import type { Exchange } from '../../helpers/frontServer.ts';
import type { StrictSqs } from '../../helpers/strictSqs.ts';
import { gist, type Sent } from './messages.ts';

/** What became of all messages. Of those in `FAULTY` there must be none. */
export interface Account {
  sent: number;
  answered: number;
  /** Of them, those that were answered with an error. */
  errors: number;
  /** Dead letters: messages that end or hang their host, and all others. */
  ownFault: number;
  innocent: number;
  lost: number;
  wrong: number;
  conflicting: number;
  outOfOrder: number;
  /** Receives of a message by the very host that had made it visible at once. */
  receivedAgain: number;
  /** Results that were written again, the same. */
  duplicates: number;
  receivedTwice: number;
  maxReceives: number;
  slowestSeconds: number;
  jobRows: number;
}

export const FAULTY = ['innocent', 'lost', 'wrong', 'conflicting', 'outOfOrder', 'receivedAgain'] as const;

export function emptyAccount(): Account {
  return {
    ...{ sent: 0, answered: 0, errors: 0, ownFault: 0, innocent: 0, lost: 0, wrong: 0, conflicting: 0, outOfOrder: 0 },
    ...{ receivedAgain: 0, duplicates: 0, receivedTwice: 0, maxReceives: 0, slowestSeconds: 0, jobRows: 0 },
  };
}

export function sumOf(accounts: readonly Account[]): Account {
  const sum = emptyAccount();
  for (const one of accounts) {
    for (const key of Object.keys(sum) as (keyof Account)[]) {
      const isMax = key === 'maxReceives' || key === 'slowestSeconds';
      sum[key] = isMax ? Math.max(sum[key], one[key]) : sum[key] + one[key];
    }
  }
  return sum;
}

/** What one store holds under each message ID, in the order in which it first came. */
export type Written = Map<
  string,
  { readonly text: string; readonly at: number; times: number; isConflicting: boolean }
>;

export function note(written: Written, body: string, at: number): void {
  const answer = JSON.parse(body);
  const [id = '', ...others]: string[] = [answer].flat().map((one) => one.message_id);
  // As it is in every store: SQS takes some characters as escapes alone.
  const text = JSON.stringify(answer);
  const before = written.get(id);
  const isConflicting = others.some((other) => other !== id);
  if (before === undefined) written.set(id, { text, at, times: 1, isConflicting });
  else {
    before.times += 1;
    before.isConflicting ||= isConflicting || before.text !== text;
  }
}

/** Forgets what a store was seen to take and does not hold at the end: it is lost. */
export function keepOnly(written: Written, held: ReadonlyMap<string, string>): void {
  for (const [id, { text }] of written) if (held.get(id) !== text) written.delete(id);
}

/** Notes what the table, or the bucket of results, has taken. */
export function noteTaken({ method, path, body }: Exchange, table: Written, bucket: Written): void {
  if (method === 'POST') {
    const { RequestItems = {} } = JSON.parse(body) as TableWrite;
    for (const { PutRequest } of Object.values(RequestItems).flat()) note(table, PutRequest.Item.body.S, Date.now());
  } else if (method === 'PUT' && path.includes('.ndjson')) {
    for (const line of body.trimEnd().split('\n')) note(bucket, line, Date.now());
  }
}

interface TableWrite {
  readonly RequestItems?: Readonly<
    Record<string, readonly { readonly PutRequest: { Item: { body: { S: string } } } }[]>
  >;
}

/** What lies on a queue of results. */
export function writtenTo(sqs: StrictSqs, queue: string): Written {
  const written: Written = new Map();
  for (const { body, attributes, sentAt } of sqs.history(queue)) {
    const results: { readonly message_id?: string }[] =
      RESULTS_ATTRIBUTE in attributes ? JSON.parse(body) : [JSON.parse(body)];
    for (const one of results) note(written, JSON.stringify(one), sentAt);
  }
  return written;
}

interface Settling {
  readonly sqs: StrictSqs;
  readonly queue: string;
  readonly sent: ReadonlyMap<string, Sent>;
  /** Whether a message of this ID was sent to any queue. */
  readonly isKnown: (messageId: string) => boolean;
  readonly stores: readonly Written[];
  /** Told of each message that is not as it should be. */
  readonly say: (line: string) => void;
}

/** Settles the account of one queue, once nobody works at it any more. */
export function settle({ sqs, queue, sent, isKnown, stores, say }: Settling): Account {
  const account = emptyAccount();
  const fault = (what: (typeof FAULTY)[number], id: string, details: unknown): void => {
    account[what] += 1;
    if (account[what] <= 5) say(`${queue}: ${what}: ${id}: ${JSON.stringify(details)}`);
  };
  for (const { messageId, sentAt, receives, fate, ownReceives, body } of sqs.history(queue)) {
    const asked = sent.get(messageId);
    if (asked === undefined) throw new Error(`expected a message that was sent, got ${messageId}`);
    const there = stores.map((written) => written.get(messageId)).filter((one) => one !== undefined);
    account.sent += 1;
    account.maxReceives = Math.max(account.maxReceives, receives);
    if (receives > 1) account.receivedTwice += 1;
    if (ownReceives > 0) fault('receivedAgain', messageId, { receives, ownReceives, fate });
    const isAnswered = fate === 'deleted' && there.length === stores.length;
    if (isAnswered) account.answered += 1;
    else if (fate === 'dead' && asked.isCulprit) account.ownFault += 1;
    else if (fate === 'dead') fault('innocent', messageId, { body, receives, inStores: there.length });
    else fault('lost', messageId, { body, receives, fate, inStores: there.length });
    for (const { text, at, times, isConflicting } of there) {
      account.duplicates += times - 1;
      account.slowestSeconds = Math.max(account.slowestSeconds, Math.round((at - sentAt) / 100) / 10);
      const came = gist(JSON.parse(text));
      if (isConflicting || text !== there[0]?.text) fault('conflicting', messageId, { text, times });
      else if (came !== asked.expected) fault('wrong', messageId, { expected: asked.expected, came: text });
    }
    if (isAnswered && there[0]?.text.includes('"code":')) account.errors += 1;
  }
  for (const [id, { text }] of stores.flatMap((written) => [...written]))
    if (!isKnown(id)) fault('wrong', id, { text });
  if (queue.endsWith('.fifo')) countOutOfOrder(sqs, queue, stores[0] ?? new Map(), fault);
  return account;
}

/** On a FIFO queue the results of a message group come in the order of its messages. */
function countOutOfOrder(
  sqs: StrictSqs,
  queue: string,
  written: Written,
  fault: (what: 'outOfOrder', id: string, details: unknown) => void,
): void {
  const places = new Map(sqs.history(queue).map(({ messageId, group }, place) => [messageId, { group, place }]));
  const last = new Map<string | undefined, number>();
  for (const id of written.keys()) {
    const { group, place = -1 } = places.get(id) ?? {};
    if (place < (last.get(group) ?? -1)) fault('outOfOrder', id, { group, place, after: last.get(group) });
    last.set(group, Math.max(place, last.get(group) ?? -1));
  }
}
