import {
  FlowLogDestination,
  FlowLogTrafficType,
  GatewayVpcEndpointAwsService,
  InterfaceVpcEndpoint,
  InterfaceVpcEndpointAwsService,
  type ISecurityGroup,
  type ISubnet,
  type IVpc,
  Peer,
  Port,
  SecurityGroup,
  type SubnetSelection,
  SubnetType,
  Vpc,
} from 'aws-cdk-lib/aws-ec2';
import { AnyPrincipal, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Stack } from 'aws-cdk-lib/core';
import type { Construct, IDependable } from 'constructs';
import { createLogGroup, type LogGroupOptions } from '../common/created.ts';
import { warn } from '../common/problems.ts';

export interface Network {
  readonly vpc: IVpc;
  readonly subnets: ISubnet[];
  readonly securityGroup: ISecurityGroup;
  /**
   * Endpoints of a new network. They must exist before anything in it starts, and until all has ended. Empty if the
   * network is given.
   */
  readonly endpoints: readonly IDependable[];
}

/** Endpoints of a new network, besides those of S3 and DynamoDB. */
interface Endpoints {
  /** Callers, in the words of descriptions, such as `GPU instances`. */
  readonly of: string;
  /** Services by the IDs of their endpoints. */
  readonly interfaces: Readonly<Record<string, InterfaceVpcEndpointAwsService>>;
  /** True if images are pulled through them. @default false: Lambda pulls images in its own network */
  readonly pullsImages?: boolean;
}

/**
 * Warns if all subnets are isolated, because hosts there cannot reach SQS. Checks only a VPC of this app, with the
 * endpoints that it already has.
 */
export function warnOfIsolation(scope: Construct, vpc: IVpc, subnets: SubnetSelection | undefined): void {
  const isolated = vpc.isolatedSubnets.map(({ subnetId }) => subnetId);
  const isCutOff = vpc.selectSubnets(subnets).subnetIds.every((id) => isolated.includes(id));
  const hasEndpoints = vpc.node.children.some((child) => child instanceof InterfaceVpcEndpoint);
  if (!(vpc instanceof Vpc) || !isCutOff || hasEndpoints) return;
  warn(
    scope,
    'isolatedNetwork',
    `vpc: expected subnets with a way to SQS, got isolated ones of ${vpc.node.path} without endpoints; add them before, such as ` +
      "vpc.addInterfaceEndpoint('Sqs', { service: InterfaceVpcEndpointAwsService.SQS }), or take subnets with a NAT gateway",
  );
}

const HTTPS = Port.tcp(443);
const AVAILABILITY_ZONES = 2;

/**
 * Returns the network of instances or tasks: the given one, or a new one that reaches only the account's own resources
 * in AWS services.
 */
export function createPrivateNetwork(
  scope: Construct,
  given: { readonly vpc?: IVpc | undefined; readonly subnets?: SubnetSelection | undefined },
  logs: LogGroupOptions,
  endpoints: Endpoints,
): Network {
  if (given.vpc !== undefined) warnOfIsolation(scope, given.vpc, given.subnets);
  const vpc = given.vpc ?? createVpc(scope, logs);
  const securityGroup = new SecurityGroup(scope, 'Instances', {
    vpc,
    description: `${endpoints.of}: they call AWS services, nothing calls them`,
    allowAllOutbound: false,
  });
  securityGroup.addEgressRule(Peer.anyIpv4(), HTTPS, 'AWS services');
  return {
    vpc,
    subnets: vpc.selectSubnets(given.subnets).subnets,
    securityGroup,
    endpoints: given.vpc === undefined ? addEndpoints(scope, vpc, securityGroup, endpoints) : [],
  };
}

function createVpc(scope: Construct, logs: LogGroupOptions): Vpc {
  return new Vpc(scope, 'Network', {
    maxAzs: AVAILABILITY_ZONES,
    natGateways: 0,
    subnetConfiguration: [{ name: 'Instances', subnetType: SubnetType.PRIVATE_ISOLATED }],
    // Resources without their own security group cannot reach anything.
    restrictDefaultSecurityGroup: true,
    flowLogs: {
      Refused: {
        trafficType: FlowLogTrafficType.REJECT,
        destination: FlowLogDestination.toCloudWatchLogs(createLogGroup(scope, 'FlowLog', logs)),
      },
    },
  });
}

/**
 * Adds endpoints that accept only this account's principals and resources, so that a model cannot send data to a
 * foreign bucket.
 */
function addEndpoints(
  scope: Construct,
  vpc: IVpc,
  callers: ISecurityGroup,
  { of, interfaces, pullsImages = false }: Endpoints,
): IDependable[] {
  const group = new SecurityGroup(scope, 'Endpoints', {
    vpc,
    description: `Endpoints of AWS services: the ${of} call them`,
    allowAllOutbound: false,
  });
  group.addIngressRule(callers, HTTPS, of);
  const endpoints = Object.entries(interfaces).map(([id, service]) => {
    const endpoint = vpc.addInterfaceEndpoint(id, { service, open: false, securityGroups: [group] });
    if (!WITHOUT_POLICY.includes(service)) endpoint.addToPolicy(ownAccountOnly(scope));
    return endpoint;
  });
  const s3 = vpc.addGatewayEndpoint('S3', { service: GatewayVpcEndpointAwsService.S3 });
  s3.addToPolicy(ownAccountOnly(scope));
  if (pullsImages) s3.addToPolicy(layersOfImages(scope));
  const dynamoDb = vpc.addGatewayEndpoint('DynamoDb', { service: GatewayVpcEndpointAwsService.DYNAMODB });
  dynamoDb.addToPolicy(ownAccountOnly(scope));
  return [...endpoints, s3, dynamoDb];
}

/** Endpoints that only the ECS agent calls. AWS documents no policy for them. */
const WITHOUT_POLICY = [InterfaceVpcEndpointAwsService.ECS_AGENT, InterfaceVpcEndpointAwsService.ECS_TELEMETRY];

/**
 * Allows signed downloads of image layers, which ECR keeps for all accounts in its own bucket.
 *
 * @see https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html
 */
function layersOfImages(scope: Construct): PolicyStatement {
  const { partition, region } = Stack.of(scope);
  return new PolicyStatement({
    principals: [new AnyPrincipal()],
    actions: ['s3:GetObject'],
    resources: [`arn:${partition}:s3:::prod-${region}-starport-layer-bucket/*`],
  });
}

/**
 * Allows only this account's principals and resources. Traces have no resource, so their account is not compared.
 *
 * @see https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-resourceaccount
 */
function ownAccountOnly(scope: Construct): PolicyStatement {
  const { account } = Stack.of(scope);
  return new PolicyStatement({
    principals: [new AnyPrincipal()],
    actions: ['*'],
    resources: ['*'],
    conditions: {
      StringEquals: { 'aws:PrincipalAccount': account },
      StringEqualsIfExists: { 'aws:ResourceAccount': account },
    },
  });
}

const OF_TASKS = {
  Sqs: InterfaceVpcEndpointAwsService.SQS,
  Logs: InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
  EcrApi: InterfaceVpcEndpointAwsService.ECR,
  EcrDocker: InterfaceVpcEndpointAwsService.ECR_DOCKER,
};

/** Endpoints for instances that register with ECS. Fargate registers from its own network. */
const OF_INSTANCES = {
  ...OF_TASKS,
  Ecs: InterfaceVpcEndpointAwsService.ECS,
  EcsAgent: InterfaceVpcEndpointAwsService.ECS_AGENT,
  EcsTelemetry: InterfaceVpcEndpointAwsService.ECS_TELEMETRY,
};

/**
 * Endpoints for tasks on Fargate.
 *
 * @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/vpc-endpoints.html
 */
export const ENDPOINTS_OF_TASKS: Endpoints = { of: 'tasks', interfaces: OF_TASKS, pullsImages: true };

/** Endpoints for tasks and for the instances that they run on. */
export const ENDPOINTS_OF_INSTANCES: Endpoints = { of: 'tasks', interfaces: OF_INSTANCES, pullsImages: true };
