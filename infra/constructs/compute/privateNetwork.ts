import {
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
import type { Construct } from 'constructs';
import { createLogGroup, type LogGroupOptions } from '../base/logGroup.ts';

export interface Network {
  readonly subnets: ISubnet[];
  readonly securityGroup: ISecurityGroup;
}

interface Given {
  readonly vpc?: IVpc | undefined;
  readonly subnets?: SubnetSelection | undefined;
}

export interface NetworkOptions extends LogGroupOptions {
  /** Whether the instances send traces to X-Ray. */
  readonly tracing: boolean;
}

const HTTPS = Port.tcp(443);
const AVAILABILITY_ZONES = 2;

/** The network the instances run in: the one given, or a new one that reaches AWS services and nothing else. */
export function createPrivateNetwork(scope: Construct, given: Given, wiring: NetworkOptions): Network {
  const vpc = given.vpc ?? createVpc(scope, wiring);
  const securityGroup = new SecurityGroup(scope, 'Instances', {
    vpc,
    description: 'GPU instances: they call AWS services, nothing calls them',
    allowAllOutbound: false,
  });
  securityGroup.addEgressRule(Peer.anyIpv4(), HTTPS, 'AWS services');
  if (given.vpc === undefined) addInterfaceEndpoints(scope, vpc, securityGroup, wiring);
  return { subnets: vpc.selectSubnets(given.subnets).subnets, securityGroup };
}

function createVpc(scope: Construct, logs: LogGroupOptions): IVpc {
  return new Vpc(scope, 'Network', {
    maxAzs: AVAILABILITY_ZONES,
    natGateways: 0,
    subnetConfiguration: [{ name: 'Instances', subnetType: SubnetType.PRIVATE_ISOLATED }],
    // Nothing uses the default group, and closing it would take a custom resource with its own function.
    restrictDefaultSecurityGroup: false,
    gatewayEndpoints: {
      S3: { service: GatewayVpcEndpointAwsService.S3 },
      DynamoDb: { service: GatewayVpcEndpointAwsService.DYNAMODB },
    },
    flowLogs: {
      Refused: {
        trafficType: FlowLogTrafficType.REJECT,
        destination: FlowLogDestination.toCloudWatchLogs(createLogGroup(scope, 'FlowLog', logs)),
      },
    },
  });
}

function addInterfaceEndpoints(
  scope: Construct,
  vpc: IVpc,
  instances: ISecurityGroup,
  { tracing }: NetworkOptions,
): void {
  const endpoints = new SecurityGroup(scope, 'Endpoints', {
    vpc,
    description: 'Endpoints of AWS services: the GPU instances call them',
    allowAllOutbound: false,
  });
  endpoints.addIngressRule(instances, HTTPS, 'GPU instances');
  const services = {
    Sqs: InterfaceVpcEndpointAwsService.SQS,
    Logs: InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    ...(tracing && { Xray: InterfaceVpcEndpointAwsService.XRAY }),
  };
  for (const [id, service] of Object.entries(services)) {
    vpc.addInterfaceEndpoint(id, { service, open: false, securityGroups: [endpoints] });
  }
}
