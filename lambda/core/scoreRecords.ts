import { decodeBody } from './decode.ts';
import type { ScoringDependencies, TimeLimit } from './dependencies.ts';
import { failure } from './failure.ts';
import { openLedger, type ReadyResult } from './ledger.ts';
import type { MessageRecord } from './record.ts';
import type { DecodedBody } from './request.ts';
import type { Outcome } from './result.ts';
import { MICRO_BATCHES_IN_THE_PIPE, scoreMicroBatch } from './scoreMicroBatch.ts';
import { writeInGroupOrder, writeResults } from './writeResults.ts';

export type { MicroBatchReport, Observer, ScoringDependencies, ScoringLimits, TimeLimit } from './dependencies.ts';

/**
 * Scores records and writes one result per message ID.
 *
 * Outcomes align with `records` by index. A record is `answered` only after every store has taken its result;
 * everything else is `retry`. Never throws for a record's sake.
 */
export async function scoreRecords(
  records: readonly MessageRecord[],
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<Outcome[]> {
  const bodies = await Promise.all(records.map((record) => decodeOne(record, deps, time.signal)));
  const ledger = openLedger(records, bodies);
  const microBatches = deps.plan(ledger.requests, deps.limits);

  const inGroupOrder = new Map<number, ReadyResult>();
  const write = async (ready: readonly ReadyResult[]): Promise<void> => {
    for (const one of ready) if (isOrdered(one)) inGroupOrder.set(one.record, one);
    await writeResults(
      ready.filter((one) => !isOrdered(one)),
      ledger,
      deps,
      time,
    );
  };
  await Promise.all([
    write(ledger.refused),
    inLanes(microBatches, MICRO_BATCHES_IN_THE_PIPE, async (batch) => {
      await write(await scoreMicroBatch(batch, ledger, deps, time));
    }),
  ]);
  await writeInGroupOrder(records, inGroupOrder, ledger, deps, time);
  return records.map((_, record) => ledger.outcomeOf(record));
}

function isOrdered({ result }: ReadyResult): boolean {
  return result.messageGroupId !== undefined;
}

async function decodeOne(record: MessageRecord, deps: ScoringDependencies, signal: AbortSignal): Promise<DecodedBody> {
  try {
    return await decodeBody(record.body, deps, signal);
  } catch (error) {
    deps.observer.problem(error);
    const failed = failure('INTERNAL', 'expected the decoder to answer, it threw; the record is handed back');
    return { packed: false, requests: [{ id: undefined, failure: failed }] };
  }
}

/** Runs `work` on every item in order, on at most `lanes` at once. */
async function inLanes<T>(items: readonly T[], lanes: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const lane = async (): Promise<void> => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}
