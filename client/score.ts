import { describeError } from '../lambda/aws/awsError.ts';
import { raceAbort } from '../lambda/core/concurrency.ts';
import { RequestError, ScoringError, SendError } from './clientErrors.ts';
import { startDeadline, TIMED_OUT } from './collect.ts';
import type { TensorRequest } from './encodeRequest.ts';
import type { Inbox } from './inbox.ts';
import type { Outbox, Sent } from './outbox.ts';
import type { OutputTensors, ScoringResult } from './readResult.ts';

export interface ScoreOptions extends Omit<TensorRequest, 'inputs'> {
  /** Maximum wait for the scores in milliseconds, at least 1. @default 30000 */
  readonly timeoutMs?: number | undefined;
  /** Ends this caller's wait with its reason. Other callers continue to wait. */
  readonly signal?: AbortSignal | undefined;
}

interface ScoreDependencies {
  readonly outbox: Pick<Outbox, 'send'>;
  readonly inbox: Inbox;
}

const DEFAULT_TIMEOUT_MS = 30_000;

/** Scores one caller's request. It shares calls and polls with the requests of other callers. */
export async function score(
  inputs: TensorRequest['inputs'],
  { timeoutMs = DEFAULT_TIMEOUT_MS, signal, ...request }: ScoreOptions,
  { outbox, inbox }: ScoreDependencies,
): Promise<OutputTensors> {
  signal?.throwIfAborted();
  const deadline = startDeadline(timeoutMs, signal);
  let messageId: string | undefined;
  try {
    const sent = await sendFor(outbox.send({ ...request, inputs }, deadline.signal), deadline.signal, inbox);
    messageId = sent.id;
    return outputsOf(await receiveFor(sent, deadline.signal, inbox));
  } catch (error) {
    if (error !== TIMED_OUT) throw error;
    const message = `expected scores within ${timeoutMs} ms, got none; raise timeoutMs or try again`;
    throw new ScoringError('TIMEOUT', message, { messageId, id: request.id });
  } finally {
    deadline.end();
  }
}

/** Sends the request. If the caller leaves before it is sent, its result is dropped on arrival. */
async function sendFor(sending: Promise<Sent>, signal: AbortSignal, inbox: Inbox): Promise<Sent> {
  try {
    return await raceAbort(sending, signal);
  } catch (cause) {
    sending.then(
      ({ id, requests }) => inbox.dismiss(id, requests),
      () => {},
    );
    if (signal.aborted && cause === signal.reason) throw cause;
    if (cause instanceof RequestError) throw cause;
    const retryable = cause instanceof SendError ? cause.retryable : undefined;
    throw new ScoringError('SUBMIT_FAILED', describeError(cause), { retryable, cause });
  }
}

async function receiveFor({ id, requests }: Sent, signal: AbortSignal, inbox: Inbox): Promise<ScoringResult> {
  const waiting = inbox.waitFor([id], signal);
  try {
    const arrival = await waiting.next();
    arrival.accept();
    return arrival.result;
  } catch (cause) {
    inbox.dismiss(id, requests);
    if (signal.aborted && cause === signal.reason) throw cause;
    throw new ScoringError('COLLECT_FAILED', describeError(cause), { messageId: id, cause });
  } finally {
    waiting.close();
  }
}

function outputsOf(result: ScoringResult): OutputTensors {
  if ('error' in result) throw result.error;
  if ('outputs' in result) return result.outputs;
  const { messageId } = result;
  const form = Object.keys(result).at(-1);
  throw new ScoringError(
    'INVALID_RESULT',
    `expected outputs under message ID ${messageId}, got '${form}'; use submit and collect for a model with a transform`,
    { messageId },
  );
}
