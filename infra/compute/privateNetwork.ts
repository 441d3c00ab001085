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

/** Services by the IDs of their endpoints in a new network, besides S3 and DynamoDB. */
type Endpoints = Readonly<Record<string, InterfaceVpcEndpointAwsService>>;

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

/** Creates a group for hosts in a network. They call HTTPS only, because they call only AWS services. */
export function createHostGroup(scope: Construct, id: string, vpc: IVpc): SecurityGroup {
  const description = 'Hosts: they call AWS services, nothing calls them';
  const group = new SecurityGroup(scope, id, { vpc, description, allowAllOutbound: false });
  group.addEgressRule(Peer.anyIpv4(), HTTPS, 'AWS services');
  return group;
}

/**
 * Returns the network of instances or tasks: the given one, or a new one that reaches only the account's own resources
 * in AWS services.
 */
export function createPrivateNetwork(
  scope: Construct,
  given: { readonly vpc?: IVpc; readonly subnets?: SubnetSelection },
  logs: LogGroupOptions,
  interfaces: Endpoints,
): Network {
  if (given.vpc !== undefined) warnOfIsolation(scope, given.vpc, given.subnets);
  const vpc = given.vpc ?? createVpc(scope, logs);
  const securityGroup = createHostGroup(scope, 'Instances', vpc);
  return {
    vpc,
    subnets: vpc.selectSubnets(given.subnets).subnets,
    securityGroup,
    endpoints: given.vpc === undefined ? addEndpoints(scope, vpc, securityGroup, interfaces) : [],
  };
}

function createVpc(scope: Construct, logs: LogGroupOptions): Vpc {
  return new Vpc(scope, 'Network', {
    maxAzs: AVAILABILITY_ZONES,
    natGateways: 0,
    subnetConfiguration: [{ name: 'Instances', subnetType: SubnetType.PRIVATE_ISOLATED }],
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
function addEndpoints(scope: Construct, vpc: IVpc, hosts: ISecurityGroup, interfaces: Endpoints): IDependable[] {
  const description = 'Endpoints of AWS services: hosts call them';
  const group = new SecurityGroup(scope, 'Endpoints', { vpc, description, allowAllOutbound: false });
  group.addIngressRule(hosts, HTTPS, 'hosts');
  const endpoints = Object.entries(interfaces).map(([id, service]) => {
    const endpoint = vpc.addInterfaceEndpoint(id, { service, open: false, securityGroups: [group] });
    if (!WITHOUT_POLICY.includes(service)) endpoint.addToPolicy(ownAccountOnly(scope));
    return endpoint;
  });
  const s3 = vpc.addGatewayEndpoint('S3', { service: GatewayVpcEndpointAwsService.S3 });
  s3.addToPolicy(ownAccountOnly(scope));
  // Lambda pulls images in its own network.
  if ('EcrDocker' in interfaces) s3.addToPolicy(layersOfImages(scope));
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

/** Endpoints for tasks on Fargate. @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/vpc-endpoints.html */
export const ENDPOINTS_OF_TASKS = {
  Sqs: InterfaceVpcEndpointAwsService.SQS,
  Logs: InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
  EcrApi: InterfaceVpcEndpointAwsService.ECR,
  EcrDocker: InterfaceVpcEndpointAwsService.ECR_DOCKER,
};

/** Endpoints for tasks and for instances that register with ECS. Fargate registers from its own network. */
export const ENDPOINTS_OF_INSTANCES = {
  ...ENDPOINTS_OF_TASKS,
  Ecs: InterfaceVpcEndpointAwsService.ECS,
  EcsAgent: InterfaceVpcEndpointAwsService.ECS_AGENT,
  EcsTelemetry: InterfaceVpcEndpointAwsService.ECS_TELEMETRY,
};
