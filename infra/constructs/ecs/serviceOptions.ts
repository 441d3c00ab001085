import type { Duration } from 'aws-cdk-lib';
import type { IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import type { IRole } from 'aws-cdk-lib/aws-iam';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import { secondsOf } from '../base/units.ts';
import type { ServiceSettings } from '../checks/service.ts';

/** What every service of workers can be told. */
export interface ServiceOptions {
  /**
   * The role that workers run with, which everything is granted to. ECS tasks must be allowed to assume it.
   * @default a new one, which may do what scoring needs and nothing else
   */
  readonly role?: IRole | undefined;
  /**
   * Where workers log. Retention, key and removal policy are its own.
   * @default a new one
   */
  readonly logGroup?: ILogGroup | undefined;
  /** How long one batch may take, whole seconds, 1 to 3,600; what is not scored by then is handed back. @default 60 seconds */
  readonly timeout?: Duration;
  /**
   * From SIGTERM until ECS kills a task, whole seconds: to Fargate and with `spot` 120 at the most, and a third longer than
   * `timeout` at least, so that what is being scored is finished.
   * @default 120 seconds
   */
  readonly stopTimeout?: Duration;
  /** Tasks that always run. 0 scales to zero: nothing runs while there are no requests, and waking takes minutes. @default 0 */
  readonly minimumTasks?: number;
  /** Most tasks. While a new version takes over, there are up to twice as many. @default 4 */
  readonly maximumTasks?: number;
  /**
   * Messages, waiting and in flight, that there is a task for: with more, tasks are added. How many a task scores in the
   * time that requests may wait.
   * @default ten batches
   */
  readonly backlogPerTask?: number;
  /** Most receives of a worker in flight, 1 to 64. @default 16 */
  readonly mostPolls?: number;
  /** Most batches of a model that a worker scores at the same time, 1 to 16. @default 2 */
  readonly pipelineDepth?: number;
  /** Whether tasks run on spot capacity, which is cheaper, and ends with a notice of two minutes. @default false */
  readonly spot?: boolean;
  /**
   * The network of the tasks. It must reach ECR, CloudWatch Logs, SQS, S3 and the result stores; Managed Instances and Auto
   * Scaling groups need ECS too.
   * @default a network of its own, with endpoints of these services and no route to the internet
   */
  readonly vpc?: IVpc;
  /** Subnets of `vpc`. @default its private ones */
  readonly subnets?: SubnetSelection;
}

/** The options with plain numbers and defaults. */
export interface ServiceDefaults extends ServiceSettings {
  readonly role: IRole | undefined;
  readonly logGroup: ILogGroup | undefined;
  readonly vpc: IVpc | undefined;
  readonly subnets: SubnetSelection | undefined;
}

/** @throws Error when an amount is a token */
export function serviceDefaults(options: ServiceOptions): ServiceDefaults {
  return {
    role: options.role,
    logGroup: options.logGroup,
    timeoutSeconds: secondsOf('timeoutSeconds', options.timeout) ?? 60,
    stopTimeoutSeconds: secondsOf('stopTimeoutSeconds', options.stopTimeout) ?? 120,
    minimumTasks: options.minimumTasks ?? 0,
    maximumTasks: options.maximumTasks ?? Math.max(4, options.minimumTasks ?? 0),
    backlogPerTask: options.backlogPerTask,
    mostPolls: options.mostPolls,
    pipelineDepth: options.pipelineDepth,
    spot: options.spot ?? false,
    vpc: options.vpc,
    subnets: options.subnets,
  };
}
