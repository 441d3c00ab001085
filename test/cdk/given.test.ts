import { describe, expect, it } from '@jest/globals';
import type { Template } from 'aws-cdk-lib/assertions';
import type { IRole } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { type ILogGroup, LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import {
  type Compute,
  type ComputeForm,
  ecsCompute,
  ecsGpuCompute,
  lambdaCompute,
  lambdaGpuCompute,
} from '../../infra/index.ts';
import { containerIn, createScoring, createStack, only, SCORING, templateOf } from '../helpers/stacks.ts';
import { rightsOf, roleIn } from './policies.ts';

interface Given {
  readonly role?: IRole;
  readonly logGroup?: ILogGroup;
}

const FORMS: readonly (readonly [kind: string, service: string, compute: (given: Given) => ComputeForm<Compute>])[] = [
  ['lambda', 'lambda', lambdaCompute],
  ['lambdagpu', 'lambda', lambdaGpuCompute],
  ['ecs', 'ecs-tasks', ecsCompute],
  ['ecsgpu', 'ecs-tasks', ecsGpuCompute],
];

describe.each(FORMS)('for %s', (kind, service, compute) => {
  /** The role of the function or of the tasks, and the log group that it writes to. */
  function runnerIn(template: Template) {
    if (service === 'ecs-tasks') {
      const { Options } = containerIn(template).LogConfiguration as { Options: Record<string, unknown> };
      return { role: only(template, 'AWS::ECS::TaskDefinition').TaskRoleArn, log: Options['awslogs-group'] };
    }
    const { Role, LoggingConfig } = only(template, 'AWS::Lambda::Function', SCORING);
    return { role: Role, log: (LoggingConfig as { LogGroup: unknown }).LogGroup };
  }

  it('a role of your own is what everything is granted to, and no other is created', () => {
    const stack = createStack();
    const role = roleIn(stack, 'Ours', service);
    const scoring = createScoring<Compute>({ compute: compute({ role }) }, stack);
    const template = templateOf(scoring);
    expect(runnerIn(template).role).toEqual(stack.resolve(role.roleArn));
    expect(scoring.grantPrincipal).toBe(role);
    const roles = Object.keys(template.findResources('AWS::IAM::Role'));
    expect(roles.filter((id) => id.startsWith(`ScoringCompute${kind}Role`))).toEqual([]);
    const logs = service === 'lambda' ? [`logs:PutLogEvents <Compute${kind}Log>`] : [];
    expect(rightsOf(scoring, 'Ours')).toEqual(
      expect.arrayContaining(['sqs:ReceiveMessage <Requests>', 'sqs:SendMessage <Results>', ...logs]),
    );
  });

  it('a log group of your own takes the log, with its own key and retention, and no other is created', () => {
    const stack = createStack();
    const logGroup = new LogGroup(stack, 'Ours', { retention: RetentionDays.ONE_YEAR });
    const props = { encryptionKey: new Key(stack, 'Key'), logRetention: RetentionDays.ONE_DAY };
    const scoring = createScoring<Compute>({ compute: compute({ logGroup }), ...props }, stack);
    const template = templateOf(scoring);
    expect(runnerIn(template).log).toEqual(stack.resolve(logGroup.logGroupName));
    const groups = template.findResources('AWS::Logs::LogGroup');
    expect(Object.keys(groups).filter((id) => id.startsWith(`ScoringCompute${kind}Log`))).toEqual([]);
    expect(groups[stack.getLogicalId(logGroup.node.defaultChild as never)]?.Properties).toEqual({
      RetentionInDays: 365,
    });
    const writer = service === 'lambda' ? `Compute${kind}Role` : `Compute${kind}TaskExecutionRole`;
    expect(rightsOf(scoring, writer, 'logs')).toContain('logs:PutLogEvents <Ours>');
  });
});

it('what the compute creates is a property: function and event source mapping', () => {
  const stack = createStack();
  const { compute } = createScoring({}, stack);
  const template = templateOf(stack);
  const idsOf = (type: string) => Object.keys(template.findResources(type));
  const mappings = compute.eventSourceMappings.map(({ eventSourceMappingId }) => stack.resolve(eventSourceMappingId));
  expect(stack.resolve(compute.function.functionName)).toEqual({ Ref: idsOf('AWS::Lambda::Function')[0] });
  expect(mappings).toEqual([{ Ref: idsOf('AWS::Lambda::EventSourceMapping')[0] }]);
  expect(compute.alias).toBeUndefined();
  // @ts-expect-error only a function on GPUs has one
  expect(compute.capacityProvider).toBeUndefined();
});
