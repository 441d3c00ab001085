import type { SQSRecord } from 'aws-lambda';
import { createPoller, type Poller } from '../../lambda/aws/requestQueue.ts';
import { type Batch, createGather, type Gather, type GatherLimits, type GatherOptions } from './gather.ts';

export interface BatchSourceOptions extends GatherOptions {
  /** One long poll for at most `most` messages. */
  receive: (most: number) => Promise<SQSRecord[]>;
  /** Told of a failed poll. */
  onError: (error: unknown) => void;
}

export interface BatchSource {
  /** The next batch once one is closed; undefined once the source is stopped and empty. */
  next(): Promise<Batch | undefined>;
  /** Closes the open batch, and gathers by other limits from now on. */
  update(limits: GatherLimits): void;
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
export function createBatchSource({ receive, onError, clock, ...limits }: BatchSourceOptions): BatchSource {
  const closed: Batch[] = [];
  let stoppedBefore = Promise.resolve();
  let taker: ((batch: Batch | undefined) => void) | undefined;
  let stopped = false;

  const handOver = (batch: Batch): void => {
    if (taker === undefined) closed.push(batch);
    else taker(batch);
    taker = undefined;
  };
  /** What polls of before an update bring belongs to what is gathered after it. */
  const take = (records: readonly SQSRecord[]): void => gather.add(records);
  const pollBy = ({ batchSize, windowSeconds }: GatherLimits): Poller => {
    const recordsAPoll = Math.min(MESSAGES_A_POLL, batchSize);
    const gathersAhead = windowSeconds > 0;
    return createPoller({
      receive: () => receive(recordsAPoll),
      recordsAPoll,
      mostPolls: MOST_POLLS,
      hasRoom(expected) {
        const batches = Number(taker !== undefined) + Number(gathersAhead);
        return closed.length === 0 && gather.size() + expected < batches * batchSize;
      },
      take,
      onError,
      pauseMs: () => PAUSE_AFTER_ERROR_MS,
      clock,
    });
  };
  let gather: Gather = createGather({ ...limits, clock }, handOver);
  let poller = pollBy(limits);

  return {
    next: () =>
      new Promise((resolve) => {
        const batch = closed.shift();
        if (batch !== undefined || stopped) resolve(batch);
        else taker = resolve;
        poller.poll();
      }),
    update(changed) {
      stoppedBefore = bothOf(stoppedBefore, poller.stop());
      gather.flush('update');
      gather = createGather({ ...changed, clock }, handOver);
      poller = pollBy(changed);
      poller.poll();
    },
    stop: async () => {
      await bothOf(stoppedBefore, poller.stop());
      gather.flush();
      stopped = true;
      taker?.(undefined);
    },
  };
}

async function bothOf(one: Promise<void>, other: Promise<void>): Promise<void> {
  await one;
  await other;
}
