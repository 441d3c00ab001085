import { describe, expect, it } from '@jest/globals';
import { Size } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { AccessPoint, FileSystem } from 'aws-cdk-lib/aws-efs';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { type EfsModels, lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { createScoring, createStack, environmentIn, only, SCORING, templateOf } from '../helpers/stacks.ts';
import { rightsOf } from './policies.ts';

const FUNCTION = 'AWS::Lambda::Function';
const DIGEST = '0123456789abcdef'.repeat(4);
const URI = `s3://ml-models/team/models/${DIGEST}`;

/** Where the function looks for models. */
function placeIn(template: Template) {
  const { BATCHSCORE_MODELS_URI: uri, BATCHSCORE_MODELS_DIR: folder } = environmentIn(template);
  return { uri, folder };
}

describe('models in S3', () => {
  it.each([
    ['lambda', lambdaCompute],
    ['lambda-gpu', lambdaGpuCompute],
  ])('are told to the function, which has the room for them and gets no other objects: %s', (_, compute) => {
    const scoring = createScoring({ models: URI, compute: compute({ ephemeralStorageSize: Size.gibibytes(4) }) });
    expect(placeIn(templateOf(scoring))).toEqual({ uri: URI, folder: undefined });
    expect(only(templateOf(scoring), FUNCTION, SCORING).EphemeralStorage).toEqual({ Size: 4096 });
    const toModels = rightsOf(scoring, 'Role').filter((right) => right.includes('ml-models'));
    expect(toModels).toEqual([`s3:GetObject arn:aws:s3:::ml-models/team/models/${DIGEST}/*`]);
  });

  it('are in no image: one is built without models, from whatever folder', () => {
    const scoring = createScoring({ image: undefined, models: `${URI}/` });
    expect(placeIn(templateOf(scoring)).uri).toBe(URI);
    expect(JSON.stringify(scoring.image.tagOrDigest)).not.toContain('v1');
  });

  it('may be decrypted with the key of their bucket', () => {
    const stack = createStack();
    const encryptionKey = new Key(stack, 'ModelsKey');
    const bucket = new Bucket(stack, 'Models', { bucketName: 'ml-models', encryptionKey });
    const scoring = createScoring({ models: { uri: URI, bucket } }, stack);
    expect(rightsOf(scoring, 'ComputelambdaRole', 'kms')).toEqual(['kms:Decrypt <ModelsKey>']);
    expect(rightsOf(scoring, 'ComputelambdaRole')).toContain(`s3:GetObject <Models>/team/models/${DIGEST}/*`);
  });
});

describe('models in a file system', () => {
  function scoringWith(options: Partial<EfsModels> = {}) {
    const stack = createStack();
    const vpc = new Vpc(stack, 'Network', { natGateways: 0 });
    const accessPoint = new AccessPoint(stack, 'Point', { fileSystem: new FileSystem(stack, 'Models', { vpc }) });
    const compute = lambdaCompute({ vpc, subnets: { subnets: vpc.isolatedSubnets } });
    return createScoring({ image: undefined, models: { accessPoint, ...options }, compute }, stack);
  }

  const scoring = scoringWith();

  it.each([
    [scoring, '/mnt/models'],
    [scoringWith({ folder: 'releases/42' }), '/mnt/models/releases/42'],
  ])('are mounted, and looked for where they lie: %2$s', (mounted, folder) => {
    const template = templateOf(mounted);
    expect(only(template, FUNCTION, SCORING).FileSystemConfigs).toEqual([
      { Arn: expect.anything(), LocalMountPath: '/mnt/models' },
    ]);
    expect(placeIn(template)).toEqual({ uri: undefined, folder });
  });

  it('may be read through their access point, and not be written', () => {
    const point = 'arn:aws:elasticfilesystem:REGION:ACCOUNT:access-point/<Point>';
    expect(rightsOf(scoring, 'ComputelambdaRole', 'elasticfilesystem')).toEqual([
      `elasticfilesystem:ClientMount <Models> if {"StringEquals":{"elasticfilesystem:AccessPointArn":"${point}"}}`,
    ]);
  });

  it('are reached through one more port, that of NFS, once there are mount targets', () => {
    const template = templateOf(scoring);
    const egress = Object.values(template.findResources('AWS::EC2::SecurityGroupEgress'));
    expect(egress.map(({ Properties }) => Properties.FromPort)).toEqual([2049]);
    const [scoringFunction] = Object.values(template.findResources(FUNCTION, { Properties: SCORING }));
    const targets = Object.keys(template.findResources('AWS::EFS::MountTarget'));
    expect(scoringFunction?.DependsOn).toEqual(expect.arrayContaining(targets));
  });
});
