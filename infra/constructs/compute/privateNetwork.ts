import { Stack } from 'aws-cdk-lib';
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
import { AnyPrincipal, PolicyStatement } from 'aws-cdk-lib/aws-iam';
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

/** The network the instances run in: the one given, or a new one that reaches the account's own AWS services and nothing else. */
export function createPrivateNetwork(scope: Construct, given: Given, wiring: NetworkOptions): Network {
  if (given.vpc !== undefined) {
    return { subnets: given.vpc.selectSubnets(given.subnets).subnets, securityGroup: createGroup(scope, given.vpc) };
  }
  const vpc = createVpc(scope, wiring);
  const securityGroup = createGroup(scope, vpc);
  addEndpoints(scope, vpc, securityGroup, wiring);
  return { subnets: vpc.selectSubnets(given.subnets).subnets, securityGroup };
}

function createGroup(scope: Construct, vpc: IVpc): SecurityGroup {
  const securityGroup = new SecurityGroup(scope, 'Instances', {
    vpc,
    description: 'GPU instances: they call AWS services, nothing calls them',
    allowAllOutbound: false,
  });
  securityGroup.addEgressRule(Peer.anyIpv4(), HTTPS, 'AWS services');
  return securityGroup;
}

function createVpc(scope: Construct, logs: LogGroupOptions): Vpc {
  return new Vpc(scope, 'Network', {
    maxAzs: AVAILABILITY_ZONES,
    natGateways: 0,
    subnetConfiguration: [{ name: 'Instances', subnetType: SubnetType.PRIVATE_ISOLATED }],
    // Whatever is started here without a group of its own reaches nothing.
    restrictDefaultSecurityGroup: true,
    flowLogs: {
      Refused: {
        trafficType: FlowLogTrafficType.REJECT,
        destination: FlowLogDestination.toCloudWatchLogs(createLogGroup(scope, 'FlowLog', logs)),
      },
    },
  });
}

/** Each serves this account's principals and resources alone: a model cannot send what it sees to a foreign bucket. */
function addEndpoints(scope: Construct, vpc: Vpc, instances: ISecurityGroup, { tracing }: NetworkOptions): void {
  const group = new SecurityGroup(scope, 'Endpoints', {
    vpc,
    description: 'Endpoints of AWS services: the GPU instances call them',
    allowAllOutbound: false,
  });
  group.addIngressRule(instances, HTTPS, 'GPU instances');
  const interfaces = {
    Sqs: InterfaceVpcEndpointAwsService.SQS,
    Logs: InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    ...(tracing && { Xray: InterfaceVpcEndpointAwsService.XRAY }),
  };
  for (const [id, service] of Object.entries(interfaces)) {
    vpc.addInterfaceEndpoint(id, { service, open: false, securityGroups: [group] }).addToPolicy(ownAccountOnly(scope));
  }
  for (const [id, service] of Object.entries(GATEWAYS)) {
    vpc.addGatewayEndpoint(id, { service }).addToPolicy(ownAccountOnly(scope));
  }
}

const GATEWAYS = { S3: GatewayVpcEndpointAwsService.S3, DynamoDb: GatewayVpcEndpointAwsService.DYNAMODB };

/**
 * Traces have no resource, and so no account of one.
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
