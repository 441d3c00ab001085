import type { Verdict } from './compareRuns.ts';
import type { Invocation } from './invocation.ts';

/** Has the rows of a model run alone from now on, and tells that once. */
export function stopBatching(
  { part: { request }, difference }: Extract<Verdict, { status: 'differ' }>,
  { ledger, deps: { batching, observer } }: Invocation,
): void {
  const { model } = request;
  const before = batching.stop(model);
  if (before === 'alone') return;
  observer.batchMismatch({
    model: model.name,
    version: model.version,
    messageId: ledger.messageIdOf(request),
    difference,
    wasBatched: before === 'together',
  });
}
