import type { Encoding } from '../workload/messages.ts';
import type { Machine } from './contest.ts';
import type { FreshFigures } from './freshProcess.ts';
import type { GainFigures } from './gains.ts';
import type { HopFigures } from './hops.ts';
import type { LoneMessageFigures, ScenarioFigures } from './scenarioContest.ts';

/** Everything that one run of the bench measured. */
export interface BenchResults {
  readonly machine: Machine;
  readonly scenarios: readonly ScenarioResult[];
  readonly gains: readonly GainFigures[];
  readonly growth: readonly GrowthResult[];
  readonly loneMessage: readonly LoneMessageFigures[];
  readonly hops: readonly HopFigures[];
}

type MemoryFigures = Pick<FreshFigures, 'peakRssBytes' | 'processRssBytes' | 'eventRssBytes'>;

export interface ScenarioResult extends ScenarioFigures, MemoryFigures {}

export interface GrowthResult extends MemoryFigures {
  readonly scenario: string;
  readonly encoding: Encoding;
  readonly messages: number;
  readonly microsecondsPerMessage: number;
}

/** Below this, the window that messages wait for costs more than batching gains. */
const PAYS_FROM_GAIN = 1.2;

export function batchingPays({ batchingGain }: ScenarioFigures): boolean {
  return batchingGain >= PAYS_FROM_GAIN;
}
