/** Runs as a thread: samples the resident memory of the process and keeps the most in the first element of its data. */
import { parentPort, workerData } from 'node:worker_threads';

const SAMPLE_EVERY_MS = 2;
const peak: BigUint64Array = workerData;

setInterval(() => {
  const bytes = BigInt(process.memoryUsage.rss());
  if (bytes > (peak[0] as bigint)) peak[0] = bytes;
}, SAMPLE_EVERY_MS);
parentPort?.postMessage('ready');
