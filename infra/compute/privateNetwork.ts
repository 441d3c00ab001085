import {
  CfnVPCEndpoint,
  FlowLogDestination,
  FlowLogTrafficType,
  GatewayVpcEndpointAwsService,
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
import { createLogGroup, type Keeping } from '../common/created.ts';
import { otherRegion } from '../common/given.ts';
import { arnOfEvents } from '../common/grants.ts';
import { type Problem, refuse, warn } from '../common/problems.ts';
import type { Wiring } from './compute.ts';

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

/** Services by the IDs of their endpoints in a new network, besides those of all hosts, S3 and DynamoDB. */
type Endpoints = Readonly<Record<string, InterfaceVpcEndpointAwsService>>;

/** Services that a host can do nothing without, with the end of their endpoint's name. */
const SERVICES = { SQS: 'sqs', S3: 's3', 'Step Functions': 'states' };

export type MainService = keyof typeof SERVICES;

/**
 * Warns if all subnets are isolated and the network has no endpoint of the service. Checks only a VPC of this app, with
 * the endpoints that it already has.
 */
export function warnOfIsolation(
  scope: Construct,
  vpc: IVpc,
  subnets: SubnetSelection | undefined,
  service: MainService = 'SQS',
): void {
  const isolated = vpc.isolatedSubnets.map(({ subnetId }) => subnetId);
  const isCutOff = vpc.selectSubnets(subnets).subnetIds.every((id) => isolated.includes(id));
  if (!(vpc instanceof Vpc) || !isCutOff) return;
  const stack = Stack.of(vpc);
  const hasEndpoint = stack.node
    .findAll()
    .some(
      (child) =>
        child instanceof CfnVPCEndpoint &&
        child.vpcId === vpc.vpcId &&
        JSON.stringify(stack.resolve(child.serviceName)).includes(`.${SERVICES[service]}"`),
    );
  if (hasEndpoint) return;
  warn(
    scope,
    'isolatedNetwork',
    `vpc: expected subnets with a way to ${service}, got isolated ones of ${vpc.node.path} without its endpoint; add that before, ` +
      'with vpc.addInterfaceEndpoint or vpc.addGatewayEndpoint, or take subnets with a NAT gateway',
  );
}

/** Network of tasks or instances. */
export interface InstanceNetwork {
  /**
   * Network of the hosts. It must reach SQS, CloudWatch Logs, S3, result stores, and EventBridge or SNS for `jobEvents`;
   * tasks also ECR, and ECS with Managed Instances.
   * @default a new network with endpoints of these services and no route to the internet
   */
  readonly vpc?: IVpc;
  /** Subnets of `vpc`. @default its private ones */
  readonly subnets?: SubnetSelection;
}

/** Network of a function, which exists already. */
export interface FunctionNetwork {
  /**
   * Network of the function. It must reach SQS, and S3 and DynamoDB if results or models are there; for jobs S3 and
   * Step Functions; for `jobEvents` EventBridge or SNS.
   * @default none: the function reaches AWS without one
   */
  readonly vpc?: IVpc;
  /** Private subnets of `vpc`. @default its private ones */
  readonly subnets?: SubnetSelection;
  /** Security groups of the function in `vpc`. @default a group that allows HTTPS out, and nothing in */
  readonly securityGroups?: readonly ISecurityGroup[];
}

/**
 * Returns problems with the network of hosts.
 *
 * @param privateHosts hosts that get no public address. Undefined if the hosts get one in public subnets
 * @param prefix of the props' names
 */
export function networkProblems(
  { vpc, subnets, securityGroups }: FunctionNetwork,
  privateHosts: string | undefined,
  prefix = '',
): Problem[] {
  const parts = Object.entries({ subnets, securityGroups });
  return [
    ...parts.map(
      ([name, part]) =>
        part !== undefined &&
        vpc === undefined &&
        `${prefix}${name}: expected ${prefix}vpc with it, got none; give the network that it belongs to`,
    ),
    privateHosts !== undefined &&
      vpc?.selectSubnets(subnets).hasPublic === true &&
      `${prefix}subnets: expected private ones, because ${privateHosts} get no public address and would reach nothing, ` +
        'got public ones; give private subnets',
  ];
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
  given: FunctionNetwork,
  wiring: Wiring,
  interfaces: Endpoints = {},
): Network {
  if (given.vpc !== undefined) warnOfIsolation(scope, given.vpc, given.subnets);
  const vpc = given.vpc ?? createVpc(scope, wiring);
  const securityGroup = createHostGroup(scope, 'Instances', vpc);
  return {
    vpc,
    subnets: vpc.selectSubnets(given.subnets).subnets,
    securityGroup,
    endpoints: given.vpc === undefined ? addEndpoints(scope, vpc, securityGroup, wiring, interfaces) : [],
  };
}

function createVpc(scope: Construct, keeping: Keeping): Vpc {
  return new Vpc(scope, 'Network', {
    maxAzs: AVAILABILITY_ZONES,
    natGateways: 0,
    subnetConfiguration: [{ name: 'Instances', subnetType: SubnetType.PRIVATE_ISOLATED }],
    flowLogs: {
      Refused: {
        trafficType: FlowLogTrafficType.REJECT,
        destination: FlowLogDestination.toCloudWatchLogs(createLogGroup(scope, 'FlowLog', keeping)),
      },
    },
  });
}

/**
 * Adds endpoints that accept only this account's principals and resources, so that a model cannot send data to a
 * foreign bucket. The bus or topic of events may be another account's.
 */
function addEndpoints(
  scope: Construct,
  vpc: IVpc,
  hosts: ISecurityGroup,
  { tracing, events }: Wiring,
  interfaces: Endpoints,
): IDependable[] {
  const description = 'Endpoints of AWS services: hosts call them';
  const group = new SecurityGroup(scope, 'Endpoints', { vpc, description, allowAllOutbound: false });
  group.addIngressRule(hosts, HTTPS, 'hosts');
  const { XRAY, EVENTBRIDGE, SNS } = InterfaceVpcEndpointAwsService;
  const Events = events && ('eventBusArn' in events ? EVENTBRIDGE : SNS);
  refuse([otherRegion(scope, 'jobEvents', events)]);
  const all = { ...ENDPOINTS, ...(tracing && { Xray: XRAY }), ...interfaces, ...(Events && { Events }) };
  const endpoints: IDependable[] = Object.entries(all).map(([id, service]) => {
    const endpoint = vpc.addInterfaceEndpoint(id, { service, open: false, securityGroups: [group] });
    const resource = events && service === Events ? arnOfEvents(events) : undefined;
    if (!WITHOUT_POLICY.includes(service)) endpoint.addToPolicy(ownAccountOnly(scope, resource));
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
 * @param resource the only one that is allowed, of any account
 * @see https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-resourceaccount
 */
function ownAccountOnly(scope: Construct, resource?: string): PolicyStatement {
  const { account } = Stack.of(scope);
  return new PolicyStatement({
    principals: [new AnyPrincipal()],
    actions: ['*'],
    resources: [resource ?? '*'],
    conditions: {
      StringEquals: { 'aws:PrincipalAccount': account },
      ...(resource === undefined && { StringEqualsIfExists: { 'aws:ResourceAccount': account } }),
    },
  });
}

/** Endpoints for all hosts. */
const ENDPOINTS = { Sqs: InterfaceVpcEndpointAwsService.SQS, Logs: InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS };

/** Endpoints for tasks on Fargate. @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/vpc-endpoints.html */
export const ENDPOINTS_OF_TASKS = {
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
