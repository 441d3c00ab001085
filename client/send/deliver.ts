import { describeError, isCallersFault } from '../../lambda/aws/awsError.ts';
import { type RetryOptions, untilDone } from '../../lambda/aws/sendBatches.ts';
import { SendError } from '../base/errors.ts';
import { idInPacked } from '../base/requestIds.ts';
import type { Entry } from './entry.ts';
import type { Refusal, SendVerdict } from './sendCall.ts';
import type { Waiting } from './waiting.ts';

export interface DeliveryOptions {
  /** One message of the requests that share it. */
  readonly pack: (requests: readonly Entry[]) => Entry;
  /** Sends one call; verdicts align with `entries`. */
  readonly sendCall: (entries: readonly Entry[]) => Promise<SendVerdict[]>;
  /** Puts an entry's payload where its pointer says. */
  readonly offload: (entry: Entry) => Promise<void>;
  /** The same entry, with its body in a payload, for a queue that takes at most `maxBytes`. @throws RequestError */
  readonly shrink: (entry: Entry, maxBytes: number) => Entry;
  /** Takes requests that have to share other messages: fewer at a time. */
  readonly putBack: (requests: readonly Waiting[]) => void;
  /** Aborts when the client is closed: what is not sent by then is rejected. */
  readonly closing: AbortSignal;
  readonly retry?: RetryOptions;
}

/** The requests of one message, and the message. */
interface Outgoing {
  readonly requests: readonly Waiting[];
  entry: Entry;
}

/** Settles every request of a call, sending again what SQS did not take. */
export async function deliver(messages: readonly (readonly Waiting[])[], options: DeliveryOptions): Promise<void> {
  const { sendCall, closing, retry } = options;
  const call = packAll(messages, options);
  const refusals = new Map<Outgoing, SendError>();
  try {
    const left = await untilDone(
      await offloadAll(call, options),
      async (unsent) => {
        const live = unsent.filter((one) => !refuseAborted(one));
        if (live.length === 0) return [];
        const verdicts = await sendCall(live.map(({ entry }) => entry));
        const fates = await Promise.all(live.map((one, index) => settle(one, verdicts[index], refusals, options)));
        return inOrder(live, fates, options);
      },
      closing,
      retry,
    );
    for (const one of left) reject(one, refusals.get(one) ?? closing.reason);
  } catch (error) {
    for (const one of call) reject(one, error);
  }
}

/** The messages of those whose callers still wait. One that has become too large is put back, with what follows it. */
function packAll(messages: readonly (readonly Waiting[])[], { pack, putBack }: DeliveryOptions): Outgoing[] {
  const packed: Outgoing[] = [];
  for (const [index, message] of messages.entries()) {
    const requests = message.filter((request) => !refuseAbortedRequest(request));
    if (requests.length === 0) continue;
    try {
      packed.push({ requests, entry: pack(requests.map(({ entry }) => entry)) });
    } catch (error) {
      if (requests.length > 1) {
        putBack(messages.slice(index).flat());
        break;
      }
      requests[0]?.reject(error);
    }
  }
  return packed;
}

/** `again`: it is to be sent again. `smaller`: its requests have to share other messages. */
type Fate = 'settled' | 'again' | 'smaller';

/**
 * Puts back the requests of messages that have become too large, and of what is to be sent again behind them: on a FIFO
 * queue they would be overtaken.
 *
 * @returns the messages that are to be sent again as they are
 */
function inOrder(sent: readonly Outgoing[], fates: readonly Fate[], { putBack }: DeliveryOptions): Outgoing[] {
  const open = (from: number, to?: number) =>
    sent.slice(from, to).filter((_, index) => fates[from + index] !== 'settled');
  const first = fates.indexOf('smaller');
  if (first < 0) return open(0);
  putBack(open(first).flatMap(({ requests }) => requests));
  return open(0, first);
}

const NO_VERDICT: Refusal = { message: 'the request queue did not take it: no verdict', again: false };

async function settle(
  one: Outgoing,
  verdict: SendVerdict = NO_VERDICT,
  refusals: Map<Outgoing, SendError>,
  options: DeliveryOptions,
): Promise<Fate> {
  if ('messageId' in verdict) {
    accept(one, verdict.messageId);
    return 'settled';
  }
  const error = toError(verdict);
  refusals.set(one, error);
  const { maxBytes } = verdict;
  if (maxBytes !== undefined && one.entry.payload === undefined) return await shrinkOne(one, maxBytes, options);
  if (!verdict.again) reject(one, error);
  return verdict.again ? 'again' : 'settled';
}

function accept({ requests }: Outgoing, messageId: string): void {
  for (const [position, { resolve }] of requests.entries()) {
    const id = requests.length === 1 ? messageId : idInPacked(messageId, position);
    resolve({ id, requests: requests.length });
  }
}

function reject({ requests }: Outgoing, reason: unknown): void {
  for (const request of requests) request.reject(reason);
}

async function shrinkOne(one: Outgoing, maxBytes: number, options: DeliveryOptions): Promise<Fate> {
  const { requests, entry } = one;
  try {
    one.entry = options.shrink(entry, maxBytes);
  } catch (error) {
    if (requests.length > 1 && entry.bytes > maxBytes) return 'smaller';
    reject(one, error);
    return 'settled';
  }
  return (await offloadOne(one, options)) ? 'again' : 'settled';
}

/** @returns those whose payload lies where their pointer says; the others are rejected */
async function offloadAll(call: readonly Outgoing[], options: DeliveryOptions): Promise<Outgoing[]> {
  const offloaded = await Promise.all(call.map((one) => offloadOne(one, options)));
  return call.filter((_, index) => offloaded[index]);
}

async function offloadOne(one: Outgoing, { offload }: DeliveryOptions): Promise<boolean> {
  if (one.entry.payload === undefined) return true;
  if (refuseAborted(one)) return false;
  try {
    await offload(one.entry);
    return true;
  } catch (cause) {
    const retryable = !isCallersFault(cause);
    const message = `the payload bucket did not take its body: ${describeError(cause)}`;
    reject(one, new SendError(message, retryable, cause));
    return false;
  }
}

/** A message goes on for those of its callers that still wait. */
function refuseAborted({ requests }: Outgoing): boolean {
  if (!requests.every(({ signal }) => signal?.aborted === true)) return false;
  for (const request of requests) refuseAbortedRequest(request);
  return true;
}

function refuseAbortedRequest({ signal, reject: refuse }: Waiting): boolean {
  if (signal?.aborted !== true) return false;
  refuse(signal.reason);
  return true;
}

function toError({ message, again, cause }: Refusal): SendError {
  return new SendError(message, again, cause);
}
