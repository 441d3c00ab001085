import { describe, expect, it } from '@jest/globals';
import { Match, type Template } from 'aws-cdk-lib/assertions';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { ecsCompute, ecsGpuCompute } from '../../infra/index.ts';
import { createScoring, createStack, only, templateOf } from '../helpers/stacks.ts';

const SERVICE = 'AWS::ECS::Service';

describe('the network of tasks', () => {
  const servicesOf = (template: Template) =>
    Object.values(template.findResources('AWS::EC2::VPCEndpoint')).map(({ Properties }) =>
      JSON.stringify(Properties.ServiceName).replace(/^.*"\.([\w.-]+)".*$/, '$1'),
    );

  it('is one of its own, which leads to what tasks on Fargate call, and nowhere else', () => {
    const template = templateOf(createScoring({ compute: ecsCompute() }));
    expect(servicesOf(template).toSorted()).toEqual(['dynamodb', 'ecr.api', 'ecr.dkr', 'logs', 's3', 'sqs']);
    template.resourceCountIs('AWS::EC2::InternetGateway', 0);
    template.resourceCountIs('AWS::EC2::NatGateway', 0);
    expect(only(template, SERVICE)).toMatchObject({
      NetworkConfiguration: { AwsvpcConfiguration: { AssignPublicIp: 'DISABLED' } },
    });
  });

  it('leads to ECS too where instances register with it', () => {
    const template = templateOf(createScoring({ compute: ecsGpuCompute() }));
    expect(servicesOf(template)).toEqual(expect.arrayContaining(['ecs', 'ecs-agent', 'ecs-telemetry']));
  });

  it('lets images be pulled, whose layers lie in a bucket of ECR', () => {
    templateOf(createScoring({ compute: ecsCompute() })).hasResourceProperties('AWS::EC2::VPCEndpoint', {
      VpcEndpointType: 'Gateway',
      PolicyDocument: {
        Statement: Match.arrayWith([
          {
            Effect: 'Allow',
            Principal: { AWS: '*' },
            Action: 's3:GetObject',
            Resource: {
              'Fn::Join': [
                '',
                [
                  ...['arn:', { Ref: 'AWS::Partition' }, ':s3:::prod-', { Ref: 'AWS::Region' }],
                  '-starport-layer-bucket/*',
                ],
              ],
            },
          },
        ]),
      },
    });
  });

  it.each([
    ['private', SubnetType.PRIVATE_WITH_EGRESS, 'DISABLED'],
    ['public', SubnetType.PUBLIC, 'ENABLED'],
  ] as const)('may exist already, with %s subnets', (_, subnetType, AssignPublicIp) => {
    const stack = createStack();
    const vpc = new Vpc(stack, 'Own', { restrictDefaultSecurityGroup: false });
    const subnets = { subnetType };
    const template = templateOf(createScoring({ compute: ecsCompute({ vpc, subnets }) }, stack));
    template.resourceCountIs('AWS::EC2::VPC', 1);
    template.resourceCountIs('AWS::EC2::VPCEndpoint', 0);
    const Subnets = vpc.selectSubnets(subnets).subnetIds.map((id) => stack.resolve(id));
    expect(only(template, SERVICE)).toMatchObject({
      NetworkConfiguration: { AwsvpcConfiguration: { AssignPublicIp, Subnets } },
    });
  });
});
