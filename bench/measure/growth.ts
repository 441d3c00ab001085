import { ENCODINGS } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import { type FreshFigures, measureInFreshProcess } from './freshProcess.ts';
import type { GrowthResult } from './results.ts';

const POINTS = [100, 1_000, 10_000, 100_000];
const WARM_UP_MS = 1_000;

/** Time per message and memory from 100 to 100,000 messages in one event, each in a fresh process. */
export async function measureGrowth(
  { name }: Scenario,
  mostMessages: number,
  modelsDirectory: string,
  say: (progress: string) => void,
): Promise<GrowthResult[]> {
  const figures: GrowthResult[] = [];
  for (const encoding of ENCODINGS) {
    for (const messages of pointsUpTo(mostMessages)) {
      say(`${name} ${encoding}: growth, ${messages} messages`);
      const task = { modelsDirectory, scenario: name, encoding, messages, warmUpMs: WARM_UP_MS };
      const { invocationMs, ...memory }: FreshFigures = await measureInFreshProcess(task);
      const microsecondsPerMessage = (invocationMs * 1000) / messages;
      figures.push({ scenario: name, encoding, messages, microsecondsPerMessage, ...memory });
    }
  }
  return figures;
}

function pointsUpTo(most: number): number[] {
  const points = POINTS.filter((messages) => messages <= most);
  return points.length > 0 ? points : [most];
}
