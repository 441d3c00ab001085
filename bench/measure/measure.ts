import { createBareSession } from '../contestants/bareSession.ts';
import { openBatchscore } from '../contestants/openBatchscore.ts';
import { fastestPartition, limitsOf, partsOf, sweep } from '../contestants/partitions.ts';
import { drawMessages, ENCODINGS } from '../workload/messages.ts';
import { createTemporaryRepository, type TemporaryRepository } from '../workload/modelRepository.ts';
import type { Scenario } from '../workload/scenarios.ts';
import type { BenchResults, GrowthResult, ScenarioResult } from './benchResults.ts';
import { describeMachine } from './contest.ts';
import { measureGrowth, measureInFreshProcess } from './freshProcess.ts';
import { type GainFigures, measureGains } from './gains.ts';
import { HOP_REQUESTS, HOP_ROUNDS, measureHops } from './hops.ts';
import { type LoneMessageFigures, measureLoneMessage, measureScenario } from './scenarioContest.ts';

/** Takes a line of progress. */
type Say = (progress: string) => void;

/** What to measure. */
interface Selection {
  readonly scenarios: readonly Scenario[];
  /** Whether to measure the hops between the services too. */
  readonly hops: boolean;
  /** Most messages in any one event; a scenario may have fewer. */
  readonly maxMessages: number;
  /** Turns of every contestant. @default as in the scenario */
  readonly rounds: number | undefined;
}

export async function measureAll({ scenarios, hops, maxMessages, rounds }: Selection, say: Say): Promise<BenchResults> {
  const repository = await createTemporaryRepository();
  try {
    const measured: ScenarioMeasurements[] = [];
    for (const scenario of scenarios) {
      const chosen = { ...scenario, rounds: rounds ?? scenario.rounds };
      measured.push(await measureOne(chosen, maxMessages, repository, say));
    }
    const requests = Math.min(HOP_REQUESTS, maxMessages);
    return {
      machine: describeMachine(),
      scenarios: measured.flatMap(({ figures }) => figures),
      gains: measured.flatMap(({ gains }) => gains),
      growth: measured.flatMap(({ growth }) => growth),
      loneMessage: measured.flatMap(({ loneMessage }) => loneMessage),
      hops: hops ? await measureHops(requests, rounds ?? HOP_ROUNDS, say) : [],
    };
  } finally {
    await repository.remove();
  }
}

interface ScenarioMeasurements {
  readonly figures: readonly ScenarioResult[];
  readonly gains: readonly GainFigures[];
  readonly loneMessage: readonly LoneMessageFigures[];
  readonly growth: readonly GrowthResult[];
}

async function measureOne(
  scenario: Scenario,
  maxMessages: number,
  repository: TemporaryRepository,
  say: Say,
): Promise<ScenarioMeasurements> {
  const { name } = scenario;
  const modelsDirectory = repository.directory;
  const figures: ScenarioResult[] = [];
  const loneMessage: LoneMessageFigures[] = [];
  const gains: GainFigures[] = [];

  say(`${name}: looking for the best size`);
  const session = await createBareSession(await repository.addModel(scenario));
  const found = await sweep(session, scenario);
  const messages = [...drawMessages(scenario, Math.min(scenario.messages, maxMessages))];
  say(`${name}: looking for the fastest partition`);
  const parts = await fastestPartition(session, scenario, messages, limitsOf(messages, found.bestRows));

  await repository.configure(scenario, undefined);
  const fewer = messages.slice(0, scenario.gainMessages);
  const gainParts = fewer.length < messages.length ? partsOf(fewer, found.bestRows) : parts;
  for (const encoding of ENCODINGS) {
    say(`${name} ${encoding}: ${fewer.length} messages in fresh processes`);
    gains.push(await measureGains(scenario, encoding, fewer.length, modelsDirectory, gainParts));
  }

  await repository.configure(scenario, found.bestRows);
  const batchscore = await openBatchscore(modelsDirectory, name);
  for (const encoding of ENCODINGS) {
    say(`${name} ${encoding}: a lone message`);
    loneMessage.push(await measureLoneMessage(scenario, encoding, session, batchscore));
    if (scenario.onlyFresh) continue;
    say(`${name} ${encoding}: ${messages.length} messages, at most ${found.bestRows} rows in a run`);
    const contest = await measureScenario(scenario, encoding, messages, session, found, parts, batchscore);
    const task = { modelsDirectory, scenario: name, encoding, messages: messages.length, warmUpMs: 0 };
    const { invocationMs: _, ...memory } = await measureInFreshProcess(task);
    figures.push({ ...contest, ...memory });
  }
  await batchscore.close();
  await session.release();
  const growth = scenario.showsGrowth ? await measureGrowth(scenario, maxMessages, modelsDirectory, say) : [];
  return { figures, gains, loneMessage, growth };
}
