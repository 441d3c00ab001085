import { describe, expect, it } from '@jest/globals';
import { Match } from 'aws-cdk-lib/assertions';
import { lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { environmentIn, only, SCORING, synthesize } from '../helpers/stacks.ts';

const FUNCTION = 'AWS::Lambda::Function';
const KINDS = [
  ['lambda', lambdaCompute()],
  ['lambda-gpu', lambdaGpuCompute()],
] as const;
const TO_XRAY = { Action: ['xray:PutTraceSegments', 'xray:PutTelemetryRecords'], Effect: 'Allow', Resource: '*' };

describe.each(KINDS)('the log of %s', (_, compute) => {
  it('is JSON throughout, at the level that Lambda has by itself', () => {
    const template = synthesize({ compute });
    const { LoggingConfig } = only(template, FUNCTION, SCORING);
    expect(LoggingConfig).toEqual({ LogFormat: 'JSON', LogGroup: { Ref: expect.stringContaining('Log') } });
    expect(environmentIn(template)).not.toHaveProperty(CONFIG_KEYS.logLevel);
  });

  it('has debug lines where they are asked for, which Lambda lets through', () => {
    const template = synthesize({ compute, logLevel: 'debug' });
    expect(only(template, FUNCTION, SCORING).LoggingConfig).toMatchObject({ ApplicationLogLevel: 'DEBUG' });
    expect(environmentIn(template)[CONFIG_KEYS.logLevel]).toBe('debug');
  });

  it('keeps its metrics at every level: Lambda would drop them at its own warn or error', () => {
    for (const logLevel of ['info', 'warn', 'error'] as const) {
      const template = synthesize({ compute, logLevel });
      expect(only(template, FUNCTION, SCORING).LoggingConfig).not.toHaveProperty('ApplicationLogLevel');
      expect(environmentIn(template)[CONFIG_KEYS.logLevel]).toBe(logLevel);
    }
  });
});

describe.each(KINDS)('traces of %s', (_, compute) => {
  it('are taken where they are asked for, with the right to send them', () => {
    const template = synthesize({ compute, tracing: true });
    expect(only(template, FUNCTION, SCORING)).toMatchObject({ TracingConfig: { Mode: 'Active' } });
    template.hasResourceProperties('AWS::IAM::Policy', {
      PolicyDocument: { Statement: Match.arrayWith([Match.objectLike(TO_XRAY)]) },
    });
  });

  it('are not taken otherwise', () => {
    const template = synthesize({ compute });
    expect(only(template, FUNCTION, SCORING)).not.toHaveProperty('TracingConfig');
    expect(JSON.stringify(template.toJSON())).not.toContain('xray');
  });
});

describe('the way of traces from a GPU', () => {
  const servicesOf = (template: ReturnType<typeof synthesize>) =>
    Object.values(template.findResources('AWS::EC2::VPCEndpoint')).map(({ Properties }) =>
      JSON.stringify(Properties.ServiceName),
    );

  it('is an endpoint of its own network', () => {
    const services = servicesOf(synthesize({ compute: lambdaGpuCompute(), tracing: true }));
    expect(services.filter((name) => name.includes('.xray'))).toHaveLength(1);
  });
});
