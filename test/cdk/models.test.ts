import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { Size } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { AccessPoint, FileSystem } from 'aws-cdk-lib/aws-efs';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { type EfsModels, ecsCompute, lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { useFolder } from '../helpers/folders.ts';
import { modelWithWeightsIn } from '../helpers/onnxModels.ts';
import { createApp, createScoring, createStack, environmentIn, only, SCORING, templateOf } from '../helpers/stacks.ts';
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

describe('models in a folder', () => {
  const inFolder = useFolder();

  /** Their weights take no room on the disk. */
  function modelsOf(megabytes: Readonly<Record<string, number>>): string {
    for (const [version, mb] of Object.entries(megabytes)) {
      mkdirSync(inFolder(version), { recursive: true });
      writeFileSync(inFolder(version, 'model.onnx'), modelWithWeightsIn('w.bin'));
      writeFileSync(inFolder(version, 'w.bin'), '');
      truncateSync(inFolder(version, 'w.bin'), mb * 2 ** 20 - 500);
    }
    return inFolder();
  }
  const unbundled = () => createStack(createApp({ context: { 'aws:cdk:bundling-stacks': [] } }));
  const creating = (props: Parameters<typeof createScoring>[0]) => () =>
    createScoring({ image: undefined, ...props }, unbundled());

  it('are refused where the memory of the function does not hold them, with the sum', () => {
    const models = modelsOf({ 'a/1': 1000, 'a/2': 900, 'b/1': 200 });
    expect(creating({ models })).toThrow(
      'models: expected at most the 1769 MiB that there are as memorySize, got 2250: 900 of a/2 + 1000 of ' +
        'a/1 + 200 of b/1 + 150 of the runtime; raise',
    );
    expect(creating({ models, compute: lambdaCompute({ memorySize: Size.mebibytes(2250) }) })).not.toThrow();
  });

  it('are weighed one by one where they are not preloaded', () => {
    const models = modelsOf({ 'a/1': 1000, 'b/1': 900 });
    expect(creating({ models, tuning: { preload: false } })).not.toThrow();
    expect(creating({ models: modelsOf({ 'c/1': 1700 }), tuning: { preload: false } })).toThrow(
      'got 1850: 1700 of c/1 + 150',
    );
  });

  it('are refused where no image of a function holds them, or no disk of a task', () => {
    const models = modelsOf({ 'large/1': 12_000 });
    const memorySize = Size.mebibytes(10_240);
    expect(creating({ models, compute: lambdaCompute({ memorySize }) })).toThrow(
      'models: expected at most the 10240 MiB that there are for the image of a function, unpacked, got 12300: 12000 of ' +
        'large/1 + 300 of the runtime; publish the models with batchscore publish',
    );
    const onTasks = { vcpus: 4, memorySize: Size.gibibytes(24) };
    expect(creating({ models, compute: ecsCompute(onTasks) })).not.toThrow();
    expect(creating({ models: modelsOf({ 'large/2': 9_000 }), compute: ecsCompute(onTasks) })).toThrow('got 21300: ');
  });

  it('are weighed against the memory of functions that score jobs', () => {
    const compute = lambdaCompute({ memorySize: Size.mebibytes(4096) });
    expect(creating({ models: modelsOf({ 'a/1': 2000 }), compute, jobs: {} })).toThrow('got 2150: 2000 of a/1 + 150');
  });
});
