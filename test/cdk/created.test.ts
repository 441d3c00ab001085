import { describe, expect, it } from '@jest/globals';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { BatchScoring, lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { createScoring, createStack, imageOf, only, SCORING, templateOf } from '../helpers/stacks.ts';

const FUNCTION = 'AWS::Lambda::Function';
const MAPPING = 'AWS::Lambda::EventSourceMapping';
const KINDS = [
  ['lambda', lambdaCompute],
  ['lambda-gpu', lambdaGpuCompute],
] as const;

describe('what the compute creates', () => {
  it('is a property: function and event source mapping', () => {
    const stack = createStack();
    const scoring = new BatchScoring(stack, 'Scoring', { image: imageOf(stack) });
    const template = templateOf(scoring);
    const [[functionId] = []] = Object.entries(template.findResources(FUNCTION));
    const [[mappingId] = []] = Object.entries(template.findResources(MAPPING));
    const { function: scoringFunction, alias, eventSourceMappings } = scoring.compute;
    expect(stack.resolve(scoringFunction.functionName)).toEqual({ Ref: functionId });
    expect(eventSourceMappings.map((mapping) => stack.resolve(mapping.eventSourceMappingId))).toEqual([
      { Ref: mappingId },
    ]);
    expect(alias).toBeUndefined();
    // @ts-expect-error only a function on GPUs has one
    expect(scoring.compute.capacityProvider).toBeUndefined();
  });
});

describe.each(KINDS)('a role of your own for %s', (_, compute) => {
  it('is what everything is granted to, and no other is created for the function', () => {
    const stack = createStack();
    const role = new Role(stack, 'Ours', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    const scoring = createScoring({ compute: compute({ role }), results: ['table'] }, stack);
    const template = templateOf(scoring);
    const arn = stack.resolve(role.roleArn);
    expect(only(template, FUNCTION, SCORING).Role).toEqual(arn);
    expect(scoring.grantPrincipal).toBe(role.grantPrincipal);
    const roles = Object.keys(template.findResources('AWS::IAM::Role'));
    expect(roles.filter((id) => /^ScoringComputelambda(gpu)?Role/.test(id))).toEqual([]);
    const policies = Object.values(template.findResources('AWS::IAM::Policy')).filter(
      ({ Properties }) => JSON.stringify(Properties.Roles) === JSON.stringify([stack.resolve(role.roleName)]),
    );
    const statements = JSON.stringify(policies);
    for (const action of ['sqs:ReceiveMessage', 'dynamodb:BatchWriteItem', 's3:PutObject', 'logs:PutLogEvents']) {
      expect(statements).toContain(`"${action}"`);
    }
  });
});

describe.each(KINDS)('a log group of your own for %s', (_, compute) => {
  it('takes the log, and no other is created for the function', () => {
    const stack = createStack();
    const logGroup = new LogGroup(stack, 'Ours', { retention: RetentionDays.ONE_YEAR });
    const template = templateOf(createScoring({ compute: compute({ logGroup }) }, stack));
    expect(only(template, FUNCTION, SCORING).LoggingConfig).toMatchObject({
      LogGroup: stack.resolve(logGroup.logGroupName),
    });
    const groups = Object.keys(template.findResources('AWS::Logs::LogGroup'));
    expect(groups.filter((id) => /^ScoringComputelambda(gpu)?Log/.test(id))).toEqual([]);
    expect(JSON.stringify(template.findResources('AWS::IAM::Policy'))).toContain(
      JSON.stringify(stack.resolve(logGroup.logGroupArn)),
    );
  });
});

it('a log group of your own keeps its own key and retention', () => {
  const stack = createStack();
  const logGroup = new LogGroup(stack, 'Ours', { retention: RetentionDays.ONE_YEAR });
  const compute = lambdaCompute({ logGroup });
  const props = { compute, encryptionKey: new Key(stack, 'Key'), logRetention: RetentionDays.ONE_DAY };
  const group = only(templateOf(createScoring(props, stack)), 'AWS::Logs::LogGroup');
  expect(group).toEqual({ RetentionInDays: 365 });
});
