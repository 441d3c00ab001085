import { describe, expect, it } from '@jest/globals';
import type { Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { AccessPoint, FileSystem } from 'aws-cdk-lib/aws-efs';
import { type EfsModels, lambdaCompute } from '../../infra/index.ts';
import { createScoring, createStack, environmentIn, only, templateOf } from '../helpers/stacks.ts';

/** A file system in a network of its own. */
function fileSystemIn(stack: Stack) {
  const vpc = new Vpc(stack, 'Network', { natGateways: 0 });
  const fileSystem = new FileSystem(stack, 'Models', { vpc });
  return { vpc, fileSystem, accessPoint: new AccessPoint(stack, 'Point', { fileSystem }) };
}

function scoringTemplate(options: Partial<EfsModels> = {}) {
  const stack = createStack();
  const { vpc, accessPoint, fileSystem } = fileSystemIn(stack);
  const scoring = createScoring(
    {
      image: undefined,
      models: { accessPoint, ...options },
      compute: lambdaCompute({ vpc, subnets: { subnets: vpc.isolatedSubnets } }),
    },
    stack,
  );
  return { stack, accessPoint, fileSystem, template: templateOf(scoring) };
}

function scoringFunctionIn(template: Template): Record<string, unknown> {
  return only(template, 'AWS::Lambda::Function', { PackageType: 'Image' });
}

describe('models in a file system', () => {
  it.each([
    [{}, '/mnt/models'],
    [{ folder: 'releases/42' }, '/mnt/models/releases/42'],
  ])('are mounted, and looked for where they lie: %j', (options, folder) => {
    const { stack, accessPoint, template } = scoringTemplate(options);

    expect(scoringFunctionIn(template).FileSystemConfigs).toEqual([
      { Arn: stack.resolve(accessPoint.accessPointArn), LocalMountPath: '/mnt/models' },
    ]);
    expect(environmentIn(template)).toMatchObject({ BATCHSCORE_MODELS_DIR: folder });
    expect(environmentIn(template)).not.toHaveProperty('BATCHSCORE_MODELS_URI');
  });

  it('may be read through their access point, and not be written', () => {
    const { stack, accessPoint, fileSystem, template } = scoringTemplate();

    const granted = Object.values(template.findResources('AWS::IAM::Policy'))
      .flatMap(({ Properties }) => Properties.PolicyDocument.Statement)
      .filter(({ Action }) => [Action].flat().some((action: string) => action.startsWith('elasticfilesystem:')));
    expect(granted).toEqual([
      {
        Action: 'elasticfilesystem:ClientMount',
        Effect: 'Allow',
        Resource: stack.resolve(fileSystem.fileSystemArn),
        Condition: {
          StringEquals: { 'elasticfilesystem:AccessPointArn': stack.resolve(accessPoint.accessPointArn) },
        },
      },
    ]);
  });

  it('are reached through one more port, that of NFS, once there are mount targets', () => {
    const { template } = scoringTemplate();

    const ports = Object.values(template.findResources('AWS::EC2::SecurityGroupEgress')).map(
      ({ Properties }) => Properties.FromPort,
    );
    expect(ports).toEqual([2049]);
    const [scoring] = Object.values(
      template.findResources('AWS::Lambda::Function', { Properties: { PackageType: 'Image' } }),
    );
    expect(scoring?.DependsOn).toEqual(
      expect.arrayContaining(Object.keys(template.findResources('AWS::EFS::MountTarget'))),
    );
  });
});
