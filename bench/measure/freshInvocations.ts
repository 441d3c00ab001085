/** Runs as the process of `measureInFreshProcess`: takes the task as its argument, writes the figures to stdout. */
import { openBatchscore } from '../contestants/batchscore.ts';
import { drawMessages, toRecords } from '../workload/messages.ts';
import { scenarioNamed } from '../workload/scenarios.ts';
import { collectGarbage } from './collectGarbage.ts';
import type { FreshFigures, FreshTask } from './freshProcess.ts';
import { median } from './median.ts';
import { watchRss } from './peakRss.ts';

const TIMED_FOR_MS = 1_000;
const LEAST_TIMED = 5;

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
    const until = performance.now() + TIMED_FOR_MS;
    while (takenMs.length < LEAST_TIMED || performance.now() < until) takenMs.push(await invokeMs());
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

process.stdout.write(JSON.stringify(await measure(JSON.parse(process.argv[2] ?? '{}'))));
