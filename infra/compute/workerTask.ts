import type { IVpc } from 'aws-cdk-lib/aws-ec2';
import {
  AwsLogDriverMode,
  Cluster,
  Compatibility,
  ContainerImage,
  ContainerInsights,
  CpuArchitecture,
  LogDriver,
  NetworkMode,
  OperatingSystemFamily,
  TaskDefinition,
} from 'aws-cdk-lib/aws-ecs';
import { type IRole, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { Duration, Size, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { createLogGroup, warnOfKeyPolicy } from '../common/created.ts';
import { roleGiven } from '../common/given.ts';
import { acknowledge, acknowledgeWildcard } from '../common/nag.ts';
import { MIB_PER_GIB } from '../common/units.ts';
import { environmentOf, type Wiring } from './compute.ts';
import type { ServiceSettings } from './serviceOptions.ts';

export interface TaskSettings extends ServiceSettings {
  readonly architecture: { readonly name: string };
  readonly vcpus: number;
  readonly memoryMb: number;
  readonly ephemeralStorageMb?: number | undefined;
  /** GPUs of a task. @default none */
  readonly gpuCount?: number;
}

const CPU_UNITS = 1024;
const HEALTH_PORT = 8080;

/** Creates a task with one worker. `BatchScoring` grants its role the other permissions. */
export function createTask(
  scope: Construct,
  cluster: Cluster,
  compatibility: Compatibility,
  settings: TaskSettings,
  wiring: Wiring,
): { readonly definition: TaskDefinition; readonly role: IRole } {
  const { architecture, vcpus, memoryMb, ephemeralStorageMb, gpuCount } = settings;
  const logGroup = settings.logGroup ?? createLogGroup(scope, 'Log', wiring);
  const role =
    roleGiven(scope, settings.role) ??
    new Role(scope, 'Role', {
      assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com'),
      description: 'Scores records: reads requests, writes results',
    });
  allowProtection(role, cluster);
  const definition = new TaskDefinition(scope, 'Task', {
    compatibility,
    networkMode: NetworkMode.AWS_VPC,
    cpu: String(CPU_UNITS * vcpus),
    memoryMiB: String(memoryMb),
    taskRole: role,
    runtimePlatform: {
      cpuArchitecture: architecture.name === 'arm64' ? CpuArchitecture.ARM64 : CpuArchitecture.X86_64,
      operatingSystemFamily: OperatingSystemFamily.LINUX,
    },
    ephemeralStorageGiB: ephemeralStorageMb && ephemeralStorageMb / MIB_PER_GIB,
  });
  const { repository, tagOrDigest } = wiring.image;
  const container = definition.addContainer('Worker', {
    containerName: 'worker',
    image: ContainerImage.fromEcrRepository(repository, tagOrDigest),
    environment: {
      // Only Fargate sets the region itself.
      AWS_REGION: Stack.of(scope).region,
      ...wiring.environment,
      ...environmentOf({
        timeoutSeconds: settings.timeoutSeconds,
        visibilitySeconds: wiring.visibilityTimeoutSeconds,
        stopSeconds: settings.stopTimeoutSeconds,
        healthPort: HEALTH_PORT,
        maxPolls: settings.maxPolls,
        pipelineDepth: settings.pipelineDepth,
      }),
    },
    healthCheck: HEALTH_CHECK,
    stopTimeout: Duration.seconds(settings.stopTimeoutSeconds),
    // Scoring must not wait for a log that cannot be written.
    logging: LogDriver.awsLogs({
      logGroup,
      streamPrefix: 'worker',
      mode: AwsLogDriverMode.NON_BLOCKING,
      maxBufferSize: Size.mebibytes(25),
    }),
    gpuCount,
    readonlyRootFilesystem: true,
  });
  definition.addVolume({ name: 'tmp' });
  container.addMountPoints({ sourceVolume: 'tmp', containerPath: '/tmp', readOnly: false });
  acknowledge(definition, 'taskEnvironment');
  acknowledgeWildcard(definition, '*', 'ecrLogin');
  return { definition, role };
}

/** Health check that passes when the models are warm. Loading them may take seven minutes. */
const HEALTH_CHECK = {
  command: ['CMD', 'node', 'healthCheck.js'],
  interval: Duration.seconds(30),
  timeout: Duration.seconds(10),
  startPeriod: Duration.seconds(300),
  retries: 5,
};

/** Lets tasks set their own scale-in protection. The cluster contains no other tasks. */
function allowProtection(role: IRole, cluster: Cluster): void {
  const tasks = cluster.arnForTasks('*');
  role.addToPrincipalPolicy(
    new PolicyStatement({ actions: ['ecs:GetTaskProtection', 'ecs:UpdateTaskProtection'], resources: [tasks] }),
  );
  acknowledgeWildcard(role, tasks, 'tasks');
}

/** Creates a cluster for one service, with task counts for its scaling and its alarms. */
export function createCluster(
  scope: Construct,
  vpc: IVpc,
  key: IKey | undefined,
  compatibility: Compatibility,
): Cluster {
  const onFargate = compatibility === Compatibility.FARGATE;
  const diskKey = onFargate ? key : undefined;
  // The CDK adds the statement only to the policy of its own keys.
  if (diskKey !== undefined && diskKey.node.defaultChild === undefined) {
    warnOfKeyPolicy(
      scope,
      'diskKeyPolicy',
      'Fargate may encrypt disks with',
      'https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-create-storage-key.html',
    );
  }
  return new Cluster(scope, 'Cluster', {
    vpc,
    containerInsightsV2: ContainerInsights.ENABLED,
    enableFargateCapacityProviders: onFargate,
    managedStorageConfiguration: diskKey && { fargateEphemeralStorageKmsKey: diskKey },
  });
}
