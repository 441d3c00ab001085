import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { AlarmThresholds } from '../base/alarmThresholds.ts';
import type { Batching } from '../base/batching.ts';
import type { Prices } from '../base/prices.ts';
import type { AlarmCondition, Compute, Graph } from '../compute/compute.ts';
import type { RequestQueues } from '../storage/requestQueue.ts';
import type { ResultStores } from '../storage/resultStores.ts';

/** The deployment that alarms and dashboard watch. */
export interface Subject {
  readonly serviceName: string;
  readonly batching: Batching;
  readonly latencyTargetSeconds: number;
  readonly requests: RequestQueues;
  readonly stores: ResultStores;
  readonly resultsPerMessage: number | 'fill';
  readonly resultMessageBytes: number;
  readonly alarmThresholds: AlarmThresholds;
  readonly compute: Compute;
  /** What jobs are watched by, if there are any. */
  readonly jobs: { readonly alarms: readonly AlarmCondition[]; readonly graphs: readonly Graph[] } | undefined;
  readonly prices: Prices;
}

/** The queues of the deployment, the request queues first. */
export function queuesOf({ requests, stores }: Subject): IQueue[] {
  return [...requests.queues, stores.resultQueue].filter((queue) => queue !== undefined);
}
