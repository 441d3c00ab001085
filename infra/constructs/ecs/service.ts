import {
  AvailabilityZoneRebalancing,
  type Cluster,
  type Ec2Service,
  type FargateService,
  type FargateServiceProps,
  type TaskDefinition,
} from 'aws-cdk-lib/aws-ecs';
import type { Construct } from 'constructs';
import { RANGES } from '../../../lambda/core/limits.ts';
import { warnOfMessagesHeld } from '../checks/batching.ts';
import type { Compute, Wiring } from '../compute/compute.ts';
import type { Network } from '../compute/privateNetwork.ts';
import { scaleByBacklog } from './scaling.ts';
import { serviceCost } from './serviceCost.ts';
import { serviceAlarms, serviceGraphs } from './serviceMonitoring.ts';
import type { ServiceDefaults } from './serviceOptions.ts';
import type { Task } from './task.ts';

/** Compute that is a service of workers. */
export interface ServiceCompute extends Compute {
  readonly cluster: Cluster;
  readonly service: FargateService | Ec2Service;
  readonly taskDefinition: TaskDefinition;
}

/**
 * How every service is deployed: new tasks are ready before old ones are told to end, and when they never are, the old
 * ones stay. The number of tasks is left to scaling: said here, every deployment would go back to it.
 */
export function deploymentOf({ eventSourceEnabled }: Pick<Wiring, 'eventSourceEnabled'>) {
  return {
    minHealthyPercent: 100,
    maxHealthyPercent: 200,
    circuitBreaker: { enable: true, rollback: true },
    // Nobody comes to a worker by its zone: a task in another one would only be started, and a busy one ended.
    availabilityZoneRebalancing: AvailabilityZoneRebalancing.DISABLED,
    ...(!eventSourceEnabled && { desiredCount: 0 }),
  } satisfies Partial<FargateServiceProps>;
}

interface Parts {
  readonly network: Network;
  readonly cluster: Cluster;
  readonly service: FargateService | Ec2Service;
  readonly task: Task;
}

interface Settings extends ServiceDefaults {
  readonly startSeconds: number;
  /** US dollars. */
  readonly taskHour: number;
}

/** Batches of messages that there is a task for, where nothing else is said. */
const BATCHES_PER_TASK = 10;

/** The compute of a service, which scales by its backlog unless it is switched off. */
export function toCompute(scope: Construct, parts: Parts, settings: Settings, wiring: Wiring): ServiceCompute {
  const { network, cluster, service, task } = parts;
  const { startSeconds, maximumTasks } = settings;
  const { requestQueues, batching } = wiring;
  // What the service names must be part of the cluster before it, and until it is gone.
  service.node.addDependency(cluster);
  // A new service starts a task at once, which fetches its image through the endpoints.
  service.node.addDependency(...network.endpoints);
  // One batch is gathered while others are scored.
  const batchesPerTask = 1 + (settings.pipelineDepth ?? RANGES.pipelineDepth.default);
  warnOfMessagesHeld(service, batching, { tasks: maximumTasks, batchesPerTask });
  if (wiring.eventSourceEnabled) {
    const backlogPerTask = settings.backlogPerTask ?? BATCHES_PER_TASK * batching.batchSize;
    scaleByBacklog(scope, service, requestQueues, { ...settings, backlogPerTask });
  }
  return {
    cluster,
    service,
    taskDefinition: task.definition,
    grantPrincipal: task.role,
    logGroup: task.logGroup,
    alarms: serviceAlarms(service, requestQueues, startSeconds),
    graphs: serviceGraphs(service, maximumTasks),
    cost: serviceCost(service, settings.taskHour),
  };
}

/** SQS tells CloudWatch of a queue that nobody has used for six hours with a delay of up to a quarter of an hour. */
const QUEUE_WAKES_SECONDS = 900;

/** Seconds until the first records are scored where nothing runs while there are none. */
export function wakeSecondsOf({ minimumTasks }: ServiceDefaults, startSeconds: number): number {
  return minimumTasks > 0 ? 0 : QUEUE_WAKES_SECONDS + startSeconds;
}

/** Whether the subnets that were given, if any, are public ones. */
export function isPublic({ vpc, subnets }: Pick<ServiceDefaults, 'vpc' | 'subnets'>): boolean {
  return vpc?.selectSubnets(subnets).hasPublic ?? false;
}
