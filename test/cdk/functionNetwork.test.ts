import { describe, expect, it } from '@jest/globals';
import type { Stack } from 'aws-cdk-lib';
import { Match } from 'aws-cdk-lib/assertions';
import { type IVpc, SecurityGroup, SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Role } from 'aws-cdk-lib/aws-iam';
import { lambdaCompute } from '../../infra/index.ts';
import { createScoring, createStack, only, synthesize, templateOf } from '../helpers/stacks.ts';

const FUNCTION = 'AWS::Lambda::Function';
const ATTACH = [
  'ec2:CreateNetworkInterface',
  'ec2:DescribeNetworkInterfaces',
  'ec2:DescribeSubnets',
  'ec2:DeleteNetworkInterface',
  'ec2:AssignPrivateIpAddresses',
  'ec2:UnassignPrivateIpAddresses',
];

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

function idsOf(stack: Stack, vpc: IVpc, subnetGroupName?: string): unknown {
  const { subnetIds } = vpc.selectSubnets(subnetGroupName === undefined ? undefined : { subnetGroupName });
  return stack.resolve(subnetIds);
}

describe('a function in a network', () => {
  const stack = createStack();
  const vpc = networkIn(stack);
  const template = templateOf(createScoring({ compute: lambdaCompute({ vpc }) }, stack));

  it('is in the private subnets, in a group that lets it call HTTPS, and nothing in', () => {
    const [[id = '', group] = []] = Object.entries(template.findResources('AWS::EC2::SecurityGroup'));
    expect(only(template, FUNCTION)).toMatchObject({
      VpcConfig: {
        SubnetIds: idsOf(stack, vpc),
        SecurityGroupIds: [{ 'Fn::GetAtt': [id, 'GroupId'] }],
      },
    });
    expect(group?.Properties.SecurityGroupEgress).toEqual([
      { CidrIp: '0.0.0.0/0', Description: 'AWS services', FromPort: 443, IpProtocol: 'tcp', ToPort: 443 },
    ]);
    expect(group?.Properties).not.toHaveProperty('SecurityGroupIngress');
    template.resourceCountIs('AWS::EC2::SecurityGroupIngress', 0);
  });

  it('lets Lambda make its network interfaces, and denies that to its own code', () => {
    const allow = { Effect: 'Allow', Action: ATTACH, Resource: '*' };
    template.hasResourceProperties('AWS::IAM::Policy', {
      PolicyDocument: { Statement: Match.arrayWith([Match.objectLike(allow)]) },
    });
    const [id = ''] = Object.keys(template.findResources(FUNCTION));
    template.hasResourceProperties('AWS::IAM::Policy', {
      PolicyDocument: {
        Statement: [
          {
            Effect: 'Deny',
            Action: ATTACH,
            Resource: '*',
            Condition: { ArnEquals: { 'lambda:SourceFunctionArn': { 'Fn::GetAtt': [id, 'Arn'] } } },
          },
        ],
      },
    });
  });

  it('is made after the permission to attach it', () => {
    const [scoringFunction] = Object.values(template.findResources(FUNCTION));
    const policies = template.findResources('AWS::IAM::Policy', {
      Properties: {
        PolicyDocument: { Statement: Match.arrayWith([Match.objectLike({ Effect: 'Allow', Action: ATTACH })]) },
      },
    });
    expect(scoringFunction?.DependsOn).toEqual(expect.arrayContaining(Object.keys(policies)));
  });
});

it('takes the subnets and security groups that are given', () => {
  const stack = createStack();
  const vpc = networkIn(stack);
  const group = new SecurityGroup(stack, 'Given', { vpc });
  const compute = lambdaCompute({ vpc, subnets: { subnetGroupName: 'Two' }, securityGroups: [group] });
  const template = templateOf(createScoring({ compute }, stack));

  template.resourceCountIs('AWS::EC2::SecurityGroup', 1);
  expect(only(template, FUNCTION)).toMatchObject({
    VpcConfig: { SubnetIds: idsOf(stack, vpc, 'Two'), SecurityGroupIds: [stack.resolve(group.securityGroupId)] },
  });
});

it('gives these rights to a role that is given, and none to one that must not change', () => {
  const rolesWith = (mutable: boolean): unknown[] => {
    const stack = createStack();
    const role = Role.fromRoleName(stack, 'Ours', 'ours', { mutable });
    const compute = lambdaCompute({ vpc: networkIn(stack), role });
    const template = templateOf(createScoring({ compute }, stack));
    return Object.values(template.findResources('AWS::IAM::Policy'))
      .filter(({ Properties }) => JSON.stringify(Properties).includes('ec2:CreateNetworkInterface'))
      .map(({ Properties }) => [Properties.Roles, Properties.PolicyDocument.Statement.at(-1).Effect]);
  };
  expect(rolesWith(true)).toEqual(expect.arrayContaining([[['ours'], 'Deny']]));
  expect(rolesWith(true)).toHaveLength(2);
  expect(rolesWith(false)).toEqual([]);
});

it('has no right to network interfaces without a network', () => {
  const template = synthesize();
  expect(JSON.stringify(template.toJSON())).not.toContain('ec2:');
  expect(only(template, FUNCTION)).not.toHaveProperty('VpcConfig');
});
