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
 * Receives records and gathers them into batches, for one taker. With a window it gathers one ahead while the taker does
 * not wait; without one what comes meanwhile stays on the queue, so that it is received together.
 */
export function createBatchSource({ receive, onError, ...limits }: BatchSourceOptions): BatchSource {
  const recordsAPoll = Math.min(MESSAGES_A_POLL, limits.batchSize);
  const gathersAhead = limits.windowSeconds > 0;
  const closed: Batch[] = [];
  let taker: ((batch: Batch | undefined) => void) | undefined;
  let stopped = false;

  const gather = createGather(limits, (batch) => {
    if (taker === undefined) closed.push(batch);
    else taker(batch);
    taker = undefined;
  });
  const poller = createPoller({
    receive: () => receive(recordsAPoll),
    recordsAPoll,
    mostPolls: MOST_POLLS,
    hasRoom(expected) {
      const batches = Number(taker !== undefined) + Number(gathersAhead);
      return closed.length === 0 && gather.size() + expected < batches * limits.batchSize;
    },
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
        else taker = resolve;
        poller.poll();
      }),
    stop: async () => {
      await poller.stop();
      gather.flush();
      stopped = true;
      taker?.(undefined);
    },
  };
}
