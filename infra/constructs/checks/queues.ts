import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { outside, SHARDS } from '../../../lambda/core/limits.ts';
import type { Problem } from '../base/refuse.ts';
import { fifoOf } from '../storage/known.ts';

const MAX_VISIBILITY_SECONDS = 43_200;
const LEAST_RECEIVES = 3;

/** The queues as they were given; undefined is left to the default. */
export interface GivenQueues {
  readonly fifo?: boolean | undefined;
  readonly requestQueue?: IQueue | undefined;
  readonly resultQueue?: IQueue | undefined;
}

/** An existing request queue must be of the kind that was asked for, and the result queue of the same kind. */
export function queueKindProblems({ fifo, requestQueue, resultQueue }: GivenQueues): Problem[] {
  return [
    requestQueue && otherKind(requestQueue, fifo),
    mixedKinds(requestQueue?.fifo ?? fifo ?? false, resultQueue?.fifo),
  ];
}

function otherKind(requestQueue: IQueue, fifo: boolean | undefined): Problem {
  if (fifo === undefined || fifo === requestQueue.fifo) return undefined;
  const [is, cure] =
    fifoOf(requestQueue) === undefined
      ? ['is taken to be by its import', 'import it with Queue.fromQueueAttributes and fifo']
      : ['is', 'leave it out'];
  return `fifo: expected ${requestQueue.fifo}, as the given request queue ${is}, got ${fifo}; ${cure}`;
}

/** Between queues of different kinds the order of a message group would be lost, or its name would be missing. */
function mixedKinds(requests: boolean, results: boolean | undefined): Problem {
  if (results === undefined || results === requests) return undefined;
  const kind = (isFifo: boolean): string => (isFifo ? 'FIFO' : 'standard');
  return (
    `stores.resultQueue: expected a ${kind(requests)} queue, as the request queue is, got a ${kind(results)} queue; ` +
    'give one of the same kind'
  );
}

/** An existing queue is one: several would have to be given one by one, each with its own timeout and dead letters. */
export function shardsProblem(shards: number, requestQueue: IQueue | undefined): Problem {
  if (requestQueue === undefined || shards === 1) return outside('shards', shards, SHARDS);
  return (
    `shards: expected 1 with a request queue of your own, got ${shards}; leave out one of the two, or make one ` +
    'construct for each queue'
  );
}

/**
 * A message that becomes visible while it is still being scored is scored, and paid for, twice.
 *
 * @param least what the compute needs
 * @param sum how `least` is worked out, such as `6 × 60 s timeout + 1 s window`
 */
export function visibilityProblem(visibilityTimeoutSeconds: number, least: number, sum: string): Problem {
  if (!Number.isInteger(visibilityTimeoutSeconds)) {
    return `visibilityTimeoutSeconds: expected a whole number, got ${visibilityTimeoutSeconds}; give the queue's own`;
  }
  if (visibilityTimeoutSeconds >= least && visibilityTimeoutSeconds <= MAX_VISIBILITY_SECONDS) return undefined;
  if (visibilityTimeoutSeconds > MAX_VISIBILITY_SECONDS) {
    return (
      `visibilityTimeoutSeconds: expected at most ${MAX_VISIBILITY_SECONDS}, which is what SQS allows, ` +
      `got ${visibilityTimeoutSeconds}; lower it`
    );
  }
  return (
    `visibilityTimeoutSeconds: expected at least ${least} = ${sum}, got ${visibilityTimeoutSeconds}; ` +
    "raise the queue's visibility timeout or lower timeoutSeconds"
  );
}

/** @param known what the CDK knows the queue to have; undefined where it does not know */
export function statedVisibilityProblem(stated: number, known: number | undefined): Problem {
  if (known === undefined || stated === known || !Number.isInteger(stated)) return undefined;
  return (
    `visibilityTimeoutSeconds: expected ${known}, as the given request queue has it, got ${stated}; ` +
    "give the queue's own, or change the queue's"
  );
}

/** Throttles and timeouts count as receives, so a limit of one or two would send good messages to the dead letters. */
export function receiveCountProblem(maxReceiveCount: number): Problem {
  if (Number.isInteger(maxReceiveCount) && maxReceiveCount < LEAST_RECEIVES) {
    return (
      `maxReceiveCount: expected at least ${LEAST_RECEIVES}, because throttles and timeouts count as receives, ` +
      `got ${maxReceiveCount}; raise it to 5`
    );
  }
  return outside('maxReceiveCount', maxReceiveCount, { least: LEAST_RECEIVES, most: 1000 });
}
