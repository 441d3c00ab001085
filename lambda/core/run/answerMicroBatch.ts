import type { MicroBatch } from '../plan/microBatch.ts';
import { answerParts } from './answerParts.ts';
import type { Invocation } from './invocation.ts';
import { reportOf } from './report.ts';
import type { Ran } from './runMicroBatch.ts';
import { startStopwatch } from './stopwatch.ts';

/** Spells the answers of a micro-batch that has run, has them written, and reports it. */
export async function answerMicroBatch(
  batch: MicroBatch,
  { outputs, runMs, stackMs }: Ran,
  invocation: Invocation,
): Promise<void> {
  const { observer, now } = invocation.deps;
  const startedAt = now();
  const stopwatch = startStopwatch(now);
  let encodeMs = 0;
  for await (const pending of answerParts(batch, outputs, invocation)) {
    encodeMs += stopwatch.lap();
    await invocation.write(pending);
    stopwatch.lap();
  }
  encodeMs += stopwatch.lap();
  observer.stage?.('encode', startedAt, now(), { model: batch.model.name, rows: batch.rows, busyMs: encodeMs });
  observer.microBatch(reportOf(batch, { stackMs, runMs, encodeMs }), () =>
    batch.parts.map(({ request }) => request.record),
  );
}
