import type { OpenMetadata, OpenThread } from './openThread.ts';

/**
 * Opens a model on each of its cards: on the first alone, because where that cannot be done the others need not be
 * tried, then on all the others.
 *
 * @param threads one for each card, at least one
 * @throws Error of the first card on which it cannot be opened; then it is open on none
 */
export async function openAll(threads: readonly OpenThread[]): Promise<OpenMetadata> {
  const [first, ...others] = threads as readonly [OpenThread, ...OpenThread[]];
  const { metadata } = await first.ready();
  const opened = await Promise.allSettled(others.map((thread) => thread.ready()));
  const failed = opened.find(({ status }) => status === 'rejected');
  if (failed?.status !== 'rejected') return metadata;
  await Promise.all(threads.map((thread) => thread.close()));
  throw failed.reason;
}
