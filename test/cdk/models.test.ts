import { describe, expect, it } from '@jest/globals';
import { Size } from 'aws-cdk-lib';
import { Match, type Template } from 'aws-cdk-lib/assertions';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { createScoring, createStack, environmentIn, only, synthesize, templateOf } from '../helpers/stacks.ts';

const DIGEST = '0123456789abcdef'.repeat(4);
const URI = `s3://ml-models/team/models/${DIGEST}`;
const OBJECTS = { 'Fn::Join': ['', ['arn:', { Ref: 'AWS::Partition' }, `:s3:::ml-models/team/models/${DIGEST}/*`]] };

/** Every statement of a role's policy that names a service. */
function statements(template: Template, service: string): { Action: unknown; Resource: unknown }[] {
  return Object.values(template.findResources('AWS::IAM::Policy'))
    .flatMap(({ Properties }) => Properties.PolicyDocument.Statement)
    .filter(({ Action }) => [Action].flat().some((action: string) => action.startsWith(service)));
}

describe('models in S3', () => {
  it.each([
    ['lambda', lambdaCompute()],
    ['lambda-gpu', lambdaGpuCompute()],
  ])('are told to the function, which may get the objects of that repository and no others: %s', (_, compute) => {
    const template = synthesize({ models: URI, compute });

    const environment = environmentIn(template);
    expect(environment.BATCHSCORE_MODELS_URI).toBe(URI);
    expect(environment).not.toHaveProperty('BATCHSCORE_MODELS_DIR');
    const ofModels = statements(template, 's3:').filter((statement) => JSON.stringify(statement).includes('ml-models'));
    expect(ofModels).toEqual([{ Action: 's3:GetObject', Effect: 'Allow', Resource: OBJECTS }]);
  });

  it('are in no image: one is built without models, from whatever folder', () => {
    const stack = createStack();

    const scoring = createScoring({ image: undefined, models: `${URI}/` }, stack);

    expect(environmentIn(templateOf(scoring)).BATCHSCORE_MODELS_URI).toBe(URI);
    expect(JSON.stringify(scoring.image.tagOrDigest)).not.toContain('v1');
  });

  it('may be decrypted with the key of their bucket', () => {
    const stack = createStack();
    const key = new Key(stack, 'ModelsKey');
    const bucket = new Bucket(stack, 'Models', { bucketName: 'ml-models', encryptionKey: key });

    const template = templateOf(createScoring({ models: { uri: URI, bucket } }, stack));

    expect(statements(template, 'kms:')).toEqual([
      { Action: 'kms:Decrypt', Effect: 'Allow', Resource: stack.resolve(key.keyArn) },
    ]);
    template.hasResourceProperties('AWS::IAM::Policy', {
      PolicyDocument: {
        Statement: Match.arrayWith([
          Match.objectLike({
            Action: 's3:GetObject',
            Resource: stack.resolve(bucket.arnForObjects(`team/models/${DIGEST}/*`)),
          }),
        ]),
      },
    });
  });

  it('have the room in /tmp that the function is given, with a GPU, too', () => {
    const compute = lambdaGpuCompute({ ephemeralStorageSize: Size.gibibytes(4) });
    const template = synthesize({ models: URI, compute });
    const scoring = only(template, 'AWS::Lambda::Function', { PackageType: 'Image' });
    expect(scoring.EphemeralStorage).toEqual({ Size: 4096 });
  });
});
