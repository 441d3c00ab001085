import { describe, expect, it } from '@jest/globals';
import type { Stack } from 'aws-cdk-lib';
import { Match } from 'aws-cdk-lib/assertions';
import { SecurityGroup, SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Role } from 'aws-cdk-lib/aws-iam';
import { lambdaCompute } from '../../infra/index.ts';
import { createScoring, createStack, only, templateOf } from '../helpers/stacks.ts';
import { rightsOf } from './policies.ts';

const FUNCTION = 'AWS::Lambda::Function';
/** The rights to network interfaces, which Lambda needs and the code in the function is denied. */
const ATTACH = [
  'ec2:AssignPrivateIpAddresses *',
  'ec2:CreateNetworkInterface *',
  'ec2:DeleteNetworkInterface *',
  'ec2:DescribeNetworkInterfaces *',
  'ec2:DescribeSubnets *',
  'ec2:UnassignPrivateIpAddresses *',
];
const denied = (id: string) =>
  ATTACH.map((right) => `Deny ${right} if {"ArnEquals":{"lambda:SourceFunctionArn":"<${id}>"}}`);

function networkIn(stack: Stack): Vpc {
  return new Vpc(stack, 'Own', {
    natGateways: 0,
    restrictDefaultSecurityGroup: false,
    subnetConfiguration: [
      { name: 'One', subnetType: SubnetType.PRIVATE_ISOLATED },
      { name: 'Two', subnetType: SubnetType.PRIVATE_ISOLATED },
    ],
  });
}

describe('a function in a network', () => {
  const stack = createStack();
  const vpc = networkIn(stack);
  const scoring = createScoring({ compute: lambdaCompute({ vpc }) }, stack);
  const template = templateOf(scoring);

  it('is in the private subnets, in a group that lets it call HTTPS, and nothing in', () => {
    const [[id = '', group] = []] = Object.entries(template.findResources('AWS::EC2::SecurityGroup'));
    expect(only(template, FUNCTION)).toMatchObject({
      VpcConfig: {
        SubnetIds: stack.resolve(vpc.selectSubnets().subnetIds),
        SecurityGroupIds: [{ 'Fn::GetAtt': [id, 'GroupId'] }],
      },
    });
    expect(group?.Properties.SecurityGroupEgress).toEqual([
      { CidrIp: '0.0.0.0/0', Description: 'AWS services', FromPort: 443, IpProtocol: 'tcp', ToPort: 443 },
    ]);
    expect(group?.Properties).not.toHaveProperty('SecurityGroupIngress');
    template.resourceCountIs('AWS::EC2::SecurityGroupIngress', 0);
  });

  it('lets Lambda make its network interfaces before it is made, and denies that to its own code', () => {
    const rights = rightsOf(scoring, 'ComputelambdaRole', 'ec2');
    expect(rights).toEqual([...denied('ComputelambdaFunction'), ...ATTACH]);
    const [scoringFunction] = Object.values(template.findResources(FUNCTION));
    const policies = template.findResources('AWS::IAM::Policy', {
      Properties: { PolicyDocument: { Statement: Match.arrayWith([Match.objectLike({ Effect: 'Allow' })]) } },
    });
    expect(scoringFunction?.DependsOn).toEqual(expect.arrayContaining(Object.keys(policies)));
  });
});

it('takes the subnets and security groups that are given', () => {
  const stack = createStack();
  const vpc = networkIn(stack);
  const group = new SecurityGroup(stack, 'Given', { vpc });
  const subnets = { subnetGroupName: 'Two' };
  const compute = lambdaCompute({ vpc, subnets, securityGroups: [group] });
  const template = templateOf(createScoring({ compute }, stack));

  template.resourceCountIs('AWS::EC2::SecurityGroup', 1);
  expect(only(template, FUNCTION)).toMatchObject({
    VpcConfig: {
      SubnetIds: stack.resolve(vpc.selectSubnets(subnets).subnetIds),
      SecurityGroupIds: [stack.resolve(group.securityGroupId)],
    },
  });
});

it('gives these rights to a role that is given, and none to one that must not change', () => {
  const rightsWith = (mutable: boolean): string[] => {
    const stack = createStack();
    const role = Role.fromRoleName(stack, 'Ours', 'ours', { mutable });
    return rightsOf(createScoring({ compute: lambdaCompute({ vpc: networkIn(stack), role }) }, stack), 'ours', 'ec2');
  };
  expect(rightsWith(true)).toEqual([...denied('ComputelambdaFunction'), ...ATTACH]);
  expect(rightsWith(false)).toEqual([]);
});
