import { Stack, Validations } from 'aws-cdk-lib';
import { InstanceType, InterfaceVpcEndpointAwsService, type IVpc, type SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import {
  type Architecture,
  CapacityProvider,
  CfnCapacityProvider,
  CfnFunction,
  type ICapacityProvider,
  InstanceTypeFilter,
  Function as LambdaFunction,
} from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { createLogGroup } from '../base/logGroup.ts';
import type { Wiring } from './compute.ts';
import { createOperatorRole } from './operatorRole.ts';
import { createPrivateNetwork, type Endpoints } from './privateNetwork.ts';

interface CapacityOptions {
  readonly architecture: Architecture;
  readonly instanceTypes: readonly string[] | undefined;
  readonly vpc: IVpc | undefined;
  readonly subnets: SubnetSelection | undefined;
}

/** What starts and terminates the instances of one deployment, in the network that was given or a new one. */
export function createCapacity(scope: Construct, options: CapacityOptions, wiring: Wiring): CapacityProvider {
  const { subnets, securityGroup, endpoints } = createPrivateNetwork(scope, options, wiring, endpointsOf(wiring));
  const logGroup = createLogGroup(scope, 'CapacityLog', wiring);
  const operatorRole = createOperatorRole(scope, logGroup, wiring.encryptionKey);
  const capacity = new CapacityProvider(scope, 'Capacity', {
    subnets,
    securityGroups: [securityGroup],
    architectures: [options.architecture],
    operatorRole,
    logGroup,
    ...(wiring.encryptionKey !== undefined && { kmsKey: wiring.encryptionKey }),
    ...(options.instanceTypes !== undefined && {
      instanceTypeFilter: InstanceTypeFilter.allow(options.instanceTypes.map((type) => new InstanceType(type))),
    }),
  });
  // A version is published once its environments have started, which takes the disks' key and, for models, S3.
  capacity.node.addDependency(operatorRole, ...endpoints);
  return capacity;
}

function endpointsOf({ tracing }: Wiring): Endpoints {
  return {
    of: 'GPU instances',
    interfaces: {
      Sqs: InterfaceVpcEndpointAwsService.SQS,
      Logs: InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
      ...(tracing && { Xray: InterfaceVpcEndpointAwsService.XRAY }),
    },
  };
}

/** Two invocations must not share the GPU's memory. */
const INVOCATIONS_PER_ENVIRONMENT = 1;

/** As the instance types with GPUs have it: other shares leave memory or processors unused. */
const GIB_PER_VCPU = 4;

/** Has a function run on the instances of a provider, with a GPU. Of an imported provider the library itself cannot do it. */
export function runOn(scoringFunction: LambdaFunction, capacity: ICapacityProvider, gpuMemoryGiB: number): void {
  const resource = scoringFunction.node.defaultChild;
  if (!(resource instanceof CfnFunction)) throw new Error('expected a function to have a CfnFunction as its child');
  resource.capacityProviderConfig = {
    lambdaManagedInstancesCapacityProviderConfig: {
      capacityProviderArn: capacity.capacityProviderArn,
      perExecutionEnvironmentMaxConcurrency: INVOCATIONS_PER_ENVIRONMENT,
      executionEnvironmentMemoryGiBPerVCpu: GIB_PER_VCPU,
    },
  };
  // Only the version behind the alias is invoked: environments of the unpublished one would be paid for nothing.
  resource.publishToLatestPublished = false;
  addAccelerator(resource, gpuMemoryGiB);
  invalidateVersionWith(scoringFunction, capacity.node.defaultChild);
}

/**
 * A provider whose network, instance types or key change is replaced under the same ID, and a version stays with the one
 * that it was published on: only a new one moves.
 *
 * @see https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-lambda-capacityprovider.html
 */
function invalidateVersionWith(scoringFunction: LambdaFunction, provider: unknown): void {
  if (!(provider instanceof CfnCapacityProvider)) return;
  const { vpcConfig, instanceRequirements, permissionsConfig, kmsKeyArn } = provider;
  const fixed = Stack.of(provider).resolve([vpcConfig, instanceRequirements, permissionsConfig, kmsKeyArn]);
  scoringFunction.invalidateVersionBasedOn(JSON.stringify(fixed));
}

/** Not yet in the library's schema, so it is set, and the validator told, by hand. */
function addAccelerator(resource: CfnFunction, gpuMemoryGiB: number): void {
  resource.addPropertyOverride('AcceleratorConfig', { AcceleratorMemorySize: gpuMemoryGiB });
  LambdaFunction.classifyVersionProperty('AcceleratorConfig', true);
  Validations.of(resource).acknowledge({
    id: 'CloudFormation-Validate::F3002',
    reason: 'AcceleratorConfig is newer than the schema that this version of aws-cdk-lib validates against',
  });
}
