import { type ISecurityGroup, type IVpc, Peer, Port, SecurityGroup, type SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import { Effect, type IRole, Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { FunctionOptions, IFunction } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { acknowledgeWildcard } from '../base/acknowledge.ts';

/** The network that a function is attached to, if any. */
export interface FunctionNetwork {
  readonly vpc?: IVpc | undefined;
  readonly subnets?: SubnetSelection | undefined;
  readonly securityGroups?: readonly ISecurityGroup[] | undefined;
}

const HTTPS = Port.tcp(443);

/**
 * What Lambda does with the function's role to attach it to a network. The descriptions know no resources, and the
 * others none that exist before.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
 */
const ATTACH = [
  'ec2:CreateNetworkInterface',
  'ec2:DescribeNetworkInterfaces',
  'ec2:DescribeSubnets',
  'ec2:DeleteNetworkInterface',
  'ec2:AssignPrivateIpAddresses',
  'ec2:UnassignPrivateIpAddresses',
];

/** Lets Lambda attach a function with this role to the network. @returns the function's options */
export function attachTo(
  scope: Construct,
  role: IRole,
  { vpc, subnets, securityGroups }: FunctionNetwork,
): Pick<FunctionOptions, 'vpc' | 'vpcSubnets' | 'securityGroups'> {
  if (vpc === undefined) return {};
  role.addToPrincipalPolicy(new PolicyStatement({ actions: ATTACH, resources: ['*'] }));
  acknowledgeWildcard(role, '*', 'Lambda makes the network interfaces, whose names nobody knows before');
  return {
    vpc,
    ...(subnets !== undefined && { vpcSubnets: subnets }),
    securityGroups: [...(securityGroups ?? [createSecurityGroup(scope, vpc)])],
  };
}

/** Everything that a function calls is an AWS service. */
function createSecurityGroup(scope: Construct, vpc: IVpc): SecurityGroup {
  const securityGroup = new SecurityGroup(scope, 'SecurityGroup', {
    vpc,
    description: 'Scoring function: it calls AWS services, nothing calls it',
    allowAllOutbound: false,
  });
  securityGroup.addEgressRule(Peer.anyIpv4(), HTTPS, 'AWS services');
  return securityGroup;
}

/**
 * Denies a function's own code what Lambda may do with its role. Lambda makes these calls from outside, which the
 * condition does not match. The policy is not one of those that the function is created after, as it names the function.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html
 */
export function keepCodeFromNetwork(scope: Construct, role: IRole, { functionArn }: IFunction): void {
  const policy = new Policy(scope, 'CodeKeepsOffNetwork', {
    statements: [
      new PolicyStatement({
        effect: Effect.DENY,
        actions: ATTACH,
        resources: ['*'],
        conditions: { ArnEquals: { 'lambda:SourceFunctionArn': functionArn } },
      }),
    ],
  });
  role.attachInlinePolicy(policy);
}
