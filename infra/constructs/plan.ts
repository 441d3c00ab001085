import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { RANGES, type ResultsPerMessage } from '../../lambda/limits/configuration.ts';
import { mappingProblems } from '../../lambda/limits/eventSourceMapping.ts';
import { type Batching, withDefaults } from './base/batching.ts';
import { PRICES, type Prices } from './base/prices.ts';
import { refuse } from './base/refuse.ts';
import { latencyProblems } from './checks/batching.ts';
import { queueKindProblems, receiveCountProblem, visibilityProblem } from './checks/queues.ts';
import { resultProblems } from './checks/results.ts';
import { tuningProblems } from './checks/tuning.ts';
import type { ComputeForm } from './compute/compute.ts';
import { lambdaCompute } from './compute/lambda.ts';
import type { BatchScoringProps } from './props.ts';
import { redriveOf } from './storage/requestQueue.ts';
import type { ResultStore } from './storage/resultStores.ts';

/** The props, completed with defaults and checked to work together. */
export interface Plan {
  readonly compute: ComputeForm;
  readonly batching: Batching;
  readonly visibilityTimeoutSeconds: number;
  readonly latencyTargetSeconds: number;
  readonly maxReceiveCount: number;
  readonly results: readonly ResultStore[];
  readonly resultsPerMessage: ResultsPerMessage;
  readonly resultMessageBytes: number;
  readonly resultTtlSeconds: number;
  readonly payloadExpiryDays: number;
  readonly logRetention: RetentionDays;
  readonly prices: Prices;
}

const DEFAULTS = { maxReceiveCount: 5, resultTtlSeconds: RANGES.resultTtlSeconds.default, payloadExpiryDays: 30 };

/** @throws Error naming everything that would fail in production, with the numbers and the cure */
export function makePlan(props: BatchScoringProps): Plan {
  const compute = props.compute ?? lambdaCompute();
  const existing = props.requestQueue;
  const batching = withDefaults({ ...props, fifo: existing?.queue.fifo ?? props.fifo });
  const least = compute.leastVisibility(batching);
  const plan: Plan = {
    compute,
    batching,
    visibilityTimeoutSeconds: existing?.visibilityTimeoutSeconds ?? least.seconds,
    latencyTargetSeconds: props.latencyTargetSeconds ?? batching.windowSeconds + compute.timeoutSeconds,
    maxReceiveCount: redriveOf(existing?.queue)?.maxReceiveCount ?? props.maxReceiveCount ?? DEFAULTS.maxReceiveCount,
    results: props.results ?? ['queue'],
    resultsPerMessage: props.resultsPerMessage ?? RANGES.resultsPerMessage.default,
    resultMessageBytes: props.resultMessageBytes ?? RANGES.resultMessageBytes.default,
    resultTtlSeconds: props.resultTtlSeconds ?? DEFAULTS.resultTtlSeconds,
    payloadExpiryDays: props.payloadExpiryDays ?? DEFAULTS.payloadExpiryDays,
    logRetention: props.logRetention ?? RetentionDays.ONE_MONTH,
    prices: withOverrides(props.prices ?? {}),
  };
  refuse([
    ...mappingProblems(batching),
    ...compute.problems(batching),
    ...latencyProblems(batching, plan.latencyTargetSeconds),
    ...resultProblems(plan),
    ...queueKindProblems({
      fifo: props.fifo,
      requestQueue: existing?.queue,
      resultQueue: props.stores?.resultQueue,
    }),
    ...tuningProblems(props.tuning ?? {}, compute.timeoutSeconds),
    visibilityProblem(plan.visibilityTimeoutSeconds, least.seconds, least.sum),
    receiveCountProblem(plan.maxReceiveCount),
  ]);
  return plan;
}

/** A new price for one instance type leaves the others as they are. */
function withOverrides(given: Partial<Prices>): Prices {
  return { ...PRICES, ...given, instanceHour: { ...PRICES.instanceHour, ...given.instanceHour } };
}
