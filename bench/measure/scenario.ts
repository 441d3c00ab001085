import { openProcesses } from '../harness/processes.ts';
import { median, takeTurns } from '../harness/turns.ts';
import { createRepository } from '../workload/modelRepository.ts';
import type { Scenario } from '../workload/scenarios.ts';

/**
 * Gain from batching, from the first call on, with default settings and binary messages, which add little overhead.
 * Each contestant runs in its own processes, in turns. The figures are median milliseconds of the first and second
 * call.
 */
export interface GainFigures {
  readonly scenario: string;
  readonly messages: number;
  readonly batchscoreMs: CallTimes;
  /** Handler with `maxBatchRows` 1. */
  readonly rowsAloneMs: CallTimes;
  /** `session.run` for each message, with JSON.parse before and JSON.stringify after it. */
  readonly bareMs: CallTimes;
}

interface ScenarioTurns {
  readonly maxMessages: number;
  readonly rounds: number;
  readonly provider: string;
}

export async function measureGains(
  scenarios: readonly Scenario[],
  { maxMessages, rounds, provider }: ScenarioTurns,
  say: (progress: string) => void,
): Promise<GainFigures[]> {
  const repository = await createRepository();
  const measured: GainFigures[] = [];
  try {
    for (const scenario of scenarios) {
      await repository.addModel(scenario);
      const { name } = scenario;
      const messages = Math.min(scenario.messages, maxMessages);
      say(`${name}: ${messages} messages in fresh processes`);
      const task = { modelsDirectory: repository.directory, scenario: name, provider, messages };
      measured.push(await measureCalls(task, rounds));
    }
  } finally {
    await repository.remove();
  }
  return measured;
}

export interface CallTask {
  /** `rowsAlone` is the handler with `maxBatchRows` 1. */
  readonly contestant: 'batchscore' | 'rowsAlone' | 'bare';
  readonly modelsDirectory: string;
  readonly scenario: string;
  readonly provider: string;
  readonly messages: number;
}

/** Milliseconds of the first and the second call. */
export type CallTimes = readonly [first: number, second: number];

const CALLS = new URL('../contestants/gainCalls.ts', import.meta.url);

async function measureCalls(given: Omit<CallTask, 'contestant'>, rounds: number): Promise<GainFigures> {
  const processes = await openProcesses();
  const calls = (contestant: CallTask['contestant']) => async (): Promise<CallTimes> => {
    const child = processes.start(CALLS);
    const taken = await child.ask<CallTimes>({ ...given, contestant } satisfies CallTask);
    await child.stop();
    return taken;
  };
  const both = (taken: readonly CallTimes[] = []): CallTimes => [
    median(taken.map(([first]) => first)),
    median(taken.map(([, second]) => second)),
  ];
  try {
    const contestants = [calls('batchscore'), calls('rowsAlone'), calls('bare')];
    const [batchscore, rowsAlone, bare] = await takeTurns(contestants, rounds);
    const { scenario, messages } = given;
    return { scenario, messages, batchscoreMs: both(batchscore), rowsAloneMs: both(rowsAlone), bareMs: both(bare) };
  } finally {
    await processes.stop();
  }
}
