import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { openBatchscore } from '../contestants/openBatchscore.ts';
import { drawMessages, toRecords } from '../workload/messages.ts';
import { scenarioNamed } from '../workload/scenarios.ts';
import { collectGarbage, median } from './contest.ts';
import type { FreshFigures, FreshTask } from './freshProcess.ts';

/** Runs as the process of `measureInFreshProcess`: takes the task as its argument, writes the figures to stdout. */

const MIN_TIMED = 5;

async function measure({ modelsDirectory, scenario, encoding, messages, warmUpMs }: FreshTask): Promise<FreshFigures> {
  const batchscore = await openBatchscore(modelsDirectory, scenario);
  const watch = await watchRss();
  const bytesWithoutEvent = settledRss();
  const records = toRecords(drawMessages(scenarioNamed(scenario), messages), encoding);
  const bytesBefore = settledRss();
  watch.restart();
  const invokeMs = async (): Promise<number> => {
    const startedAt = performance.now();
    await batchscore.invoke(records);
    return performance.now() - startedAt;
  };

  const takenMs: number[] = [];
  if (warmUpMs === 0) {
    takenMs.push(await invokeMs());
  } else {
    for (const until = performance.now() + warmUpMs; performance.now() < until; ) await invokeMs();
    const until = performance.now() + warmUpMs;
    while (takenMs.length < MIN_TIMED || performance.now() < until) takenMs.push(await invokeMs());
  }

  const processRssBytes = await watch.stop();
  await batchscore.close();
  return {
    invocationMs: median(takenMs),
    peakRssBytes: processRssBytes - bytesBefore,
    processRssBytes,
    eventRssBytes: bytesBefore - bytesWithoutEvent,
  };
}

function settledRss(): number {
  collectGarbage();
  collectGarbage();
  return process.memoryUsage.rss();
}

/** Watches the resident memory of this process. */
interface RssWatch {
  /** Forgets what was seen so far. */
  restart(): void;
  /** @returns the most bytes seen since the watch began */
  stop(): Promise<number>;
}

/**
 * Samples on a thread of its own, as the work may keep this one busy. `maxRSS` would not do: it also counts what it
 * took to build the event.
 */
async function watchRss(): Promise<RssWatch> {
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

process.stdout.write(JSON.stringify(await measure(JSON.parse(process.argv[2] ?? '{}'))));
