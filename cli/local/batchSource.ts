import type { SQSRecord } from 'aws-lambda';
import { createPoller } from '../../lambda/adapters/sqs/poller.ts';
import { type Batch, createGather, type GatherOptions } from './gather.ts';

export interface BatchSourceOptions extends GatherOptions {
  /** One long poll for at most `most` messages. */
  receive: (most: number) => Promise<SQSRecord[]>;
  /** Told of a failed poll. */
  onError: (error: unknown) => void;
}

export interface BatchSource {
  /** The next batch once one is closed; undefined once the source is stopped and empty. */
  next(): Promise<Batch | undefined>;
  /** Ends polling and closes the open batch. What is closed can still be taken. */
  stop(): Promise<void>;
}

/** Messages that SQS hands over in one receive. */
const MESSAGES_A_POLL = 10;
const MOST_POLLS = 8;
const PAUSE_AFTER_ERROR_MS = 1000;

/**
 * Receives records and gathers them into batches, for takers that each wait for one. It holds a batch for every
 * taker that waits and one gathered ahead, and receives nothing while a closed batch has no taker.
 */
export function createBatchSource({ receive, onError, ...limits }: BatchSourceOptions): BatchSource {
  const recordsAPoll = Math.min(MESSAGES_A_POLL, limits.batchSize);
  const closed: Batch[] = [];
  const takers: ((batch: Batch | undefined) => void)[] = [];
  let stopped = false;

  const gather = createGather(limits, (batch) => {
    const taker = takers.shift();
    if (taker === undefined) closed.push(batch);
    else taker(batch);
  });
  const poller = createPoller({
    receive: () => receive(recordsAPoll),
    recordsAPoll,
    mostPolls: MOST_POLLS,
    hasRoom: (expected) => closed.length === 0 && gather.size() + expected < limits.batchSize * (takers.length + 1),
    take: gather.add,
    onError,
    pauseMs: () => PAUSE_AFTER_ERROR_MS,
    clock: limits.clock,
  });

  return {
    next: () =>
      new Promise((resolve) => {
        const batch = closed.shift();
        if (batch !== undefined || stopped) resolve(batch);
        else takers.push(resolve);
        poller.poll();
      }),
    stop: async () => {
      await poller.stop();
      gather.flush();
      stopped = true;
      for (const taker of takers.splice(0)) taker(undefined);
    },
  };
}
