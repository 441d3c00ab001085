import { describe, expect, it } from '@jest/globals';
import { Duration } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import { type LambdaOptions, lambdaCompute } from '../../infra/index.ts';
import { createScoring, dashboardIn, only, synthesize } from '../helpers/stacks.ts';

const ALIAS = 'AWS::Lambda::Alias';
const GROUP = 'AWS::CodeDeploy::DeploymentGroup';
const MAPPING = 'AWS::Lambda::EventSourceMapping';

function canary(percentage: number, minutes: number): TrafficRouting {
  return TrafficRouting.timeBasedCanary({ percentage, interval: Duration.minutes(minutes) });
}

function withOptions(options: LambdaOptions): Template {
  return synthesize({ compute: lambdaCompute(options) });
}

/** The logical ID of the only resource of a type. */
function idOf(template: Template, type: string): string {
  const ids = Object.keys(template.findResources(type));
  expect(ids).toHaveLength(1);
  return ids[0] ?? '';
}

function alarmIdsOf(template: Template): Record<string, string> {
  const ids = Object.keys(template.findResources('AWS::CloudWatch::Alarm'));
  return Object.fromEntries(ids.map((id) => [id.replace(/^ScoringAlarms|[0-9A-F]{8}$/g, ''), id]));
}

function thresholdOf(template: Template, alarm: string): unknown {
  const id = alarmIdsOf(template)[alarm] ?? '';
  return template.findResources('AWS::CloudWatch::Alarm')[id]?.Properties.Threshold;
}

describe('without provisioned concurrency and canary', () => {
  it('there is no version and no alias', () => {
    const template = withOptions({});
    for (const type of [ALIAS, 'AWS::Lambda::Version', GROUP]) template.resourceCountIs(type, 0);
    expect(createScoring({ compute: lambdaCompute() }).compute.alias).toBeUndefined();
  });
});

describe.each([
  ['provisioned concurrency', { provisionedConcurrency: 3 }],
  ['a canary', { trafficRouting: canary(10, 15) }],
] as const)('with %s', (_, options) => {
  const template = withOptions(options);
  const live = idOf(template, ALIAS);

  it('SQS invokes the published version through the alias live', () => {
    const version = idOf(template, 'AWS::Lambda::Version');
    expect(only(template, ALIAS)).toMatchObject({
      Name: 'live',
      FunctionVersion: { 'Fn::GetAtt': [version, 'Version'] },
    });
    const { FunctionName } = only(template, MAPPING);
    expect(JSON.stringify(FunctionName)).toContain(live);
  });

  it('alarms, dashboard and cost have the metrics of the alias', () => {
    const { Dimensions } = only(template, 'AWS::CloudWatch::Alarm', {
      MetricName: 'Errors',
      Namespace: 'AWS/Lambda',
    });
    expect(JSON.stringify(Dimensions)).toContain(':live');
    expect(dashboardIn(template).match(/"Resource",/g)?.length).toBeGreaterThan(4);
  });
});

it('provisioned concurrency keeps environments of the published version warm', () => {
  expect(only(withOptions({ provisionedConcurrency: 3 }), ALIAS)).toMatchObject({
    ProvisionedConcurrencyConfig: { ProvisionedConcurrentExecutions: 3 },
  });
});

describe('a canary', () => {
  const template = withOptions({ trafficRouting: canary(10, 15) });

  it('shifts the alias by CodeDeploy, a part first and the rest later', () => {
    expect(only(template, 'AWS::CodeDeploy::DeploymentConfig')).toMatchObject({
      ComputePlatform: 'Lambda',
      TrafficRoutingConfig: {
        Type: 'TimeBasedCanary',
        TimeBasedCanary: { CanaryInterval: 15, CanaryPercentage: 10 },
      },
    });
    template.hasResource(ALIAS, {
      UpdatePolicy: {
        CodeDeployLambdaAliasUpdate: {
          ApplicationName: { Ref: idOf(template, 'AWS::CodeDeploy::Application') },
          DeploymentGroupName: { Ref: idOf(template, GROUP) },
        },
      },
    });
  });

  it('is undone by the alarms on what runs, and by none on traffic or on what is left from before', () => {
    const { AlarmConfiguration, AutoRollbackConfiguration } = only(template, GROUP);
    const ids = alarmIdsOf(template);
    const undoing = ['FunctionErrors', 'Retries', 'Errors', 'ScorersLost', 'BatchMismatch'];
    expect(Object.keys(ids).length).toBeGreaterThan(undoing.length);
    expect(AlarmConfiguration).toEqual({
      Enabled: true,
      Alarms: expect.arrayContaining(undoing.map((name) => ({ Name: { Ref: ids[name] } }))),
    });
    expect((AlarmConfiguration as { Alarms: unknown[] }).Alarms).toHaveLength(undoing.length);
    expect(AutoRollbackConfiguration).toMatchObject({ Enabled: true });
    expect(JSON.stringify(AutoRollbackConfiguration)).toContain('DEPLOYMENT_STOP_ON_ALARM');
  });

  it('lowers the alarms on shares so far that a version which fails half of its part sets them off', () => {
    const thresholds = (percentage: number) => {
      const shifted = withOptions({ trafficRouting: canary(percentage, 15) });
      return [thresholdOf(shifted, 'Retries'), thresholdOf(shifted, 'Errors')];
    };
    expect(thresholds(10)).toEqual([5, 5]);
    expect(thresholds(5)).toEqual([2, 2]);
    expect(thresholds(99)).toEqual([5, 49]);
    expect([thresholdOf(withOptions({}), 'Retries'), thresholdOf(withOptions({}), 'Errors')]).toEqual([5, 50]);
  });

  it('leaves thresholds that are given as they are', () => {
    const compute = lambdaCompute({ trafficRouting: canary(10, 15) });
    const alarmThresholds = { retriedPercent: 7, errorPercent: 60 };
    const given = synthesize({ compute, alarmThresholds });
    expect([thresholdOf(given, 'Retries'), thresholdOf(given, 'Errors')]).toEqual([7, 60]);
  });
});
