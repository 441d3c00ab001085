import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';

/** Watches the resident memory of this process. */
export interface RssWatch {
  /** Forgets what was seen so far. */
  restart(): void;
  /** @returns the most bytes seen since the watch began */
  stop(): Promise<number>;
}

/**
 * Samples on a thread of its own, as the work may keep this one busy. `maxRSS` would not do: it also counts what it
 * took to build the event.
 */
export async function watchRss(): Promise<RssWatch> {
  const peak = new BigUint64Array(new SharedArrayBuffer(BigUint64Array.BYTES_PER_ELEMENT));
  const sampler = new Worker(fileURLToPath(new URL('./rssSampler.ts', import.meta.url)), { workerData: peak });
  await new Promise((resolve, reject) => sampler.once('message', resolve).once('error', reject));
  return {
    restart() {
      peak[0] = 0n;
    },
    async stop() {
      await sampler.terminate();
      return Math.max(Number(peak[0]), process.memoryUsage.rss());
    },
  };
}
