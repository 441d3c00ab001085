import { messageOf } from '../../../lambda/core/failure.ts';
import { peakRssBytes } from './memory.ts';
import type { ReachTask, Size, Told } from './messages.ts';
import { openForTask, unchecked } from './openForTask.ts';
import { batchOf, fits, runMsOf } from './runOf.ts';

/** A run may take its memory in the second one only, and the first of a shape is slow. */
const RUNS = 3;
/** It is no accident that a run takes so many times as long as one may. */
const FAR_TOO_SLOW = 10;

/**
 * Runs so many rows of each length a few times, shorter ones first, and tells how much memory the process has taken by
 * then. It stops at what takes too long or holds more than a run may.
 */
export async function reachSizes(task: ReachTask, tell: (told: Told) => Promise<void>): Promise<void> {
  const { rows, lengths, limits } = task;
  await tell({ kind: 'trying', size: { rows, length: lengths[0] ?? 1 } });
  const { model, rows: maker } = await openForTask(task, tell, { adapt: unchecked(limits.ladder) });
  for (const length of lengths) {
    const size: Size = { rows, length };
    await tell({ kind: 'trying', size });
    try {
      const parts = await maker.of(length);
      if (!fits(parts, rows)) return await tell({ kind: 'tooLarge', size });
      const batch = batchOf(model, parts, rows);
      let runMs = await runMsOf(model, batch);
      for (let run = 1; run < RUNS && runMs < FAR_TOO_SLOW * limits.slowMs; run++) {
        runMs = Math.min(runMs, await runMsOf(model, batch));
      }
      await tell({ kind: 'ran', size, runMs, peakRssBytes: peakRssBytes() });
      if (runMs > limits.slowMs) return;
    } catch (error) {
      await tell({ kind: 'failed', size, reason: messageOf(error).replace(/\s+/g, ' ').trim() });
    }
  }
}
