import { describe, expect, it } from '@jest/globals';
import { lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { createScoring, endpointsIn, environmentIn, only, SCORING, synthesize, templateOf } from '../helpers/stacks.ts';
import { rightsOf } from './policies.ts';

const FUNCTION = 'AWS::Lambda::Function';

describe.each([
  ['lambda', lambdaCompute()],
  ['lambda-gpu', lambdaGpuCompute()],
] as const)('of %s', (_, compute) => {
  // At its own level warn or error Lambda would drop the metrics.
  it.each([
    [undefined, undefined],
    ['debug', 'DEBUG'],
    ['info', undefined],
    ['error', undefined],
  ] as const)('the log is JSON, at level %s, of which Lambda is told %s', (logLevel, told) => {
    const template = synthesize({ compute, ...(logLevel && { logLevel }) });
    expect(only(template, FUNCTION, SCORING).LoggingConfig).toEqual({
      LogFormat: 'JSON',
      LogGroup: { Ref: expect.stringContaining('Log') },
      ...(told && { ApplicationLogLevel: told }),
    });
    expect(environmentIn(template)[CONFIG_KEYS.logLevel]).toBe(logLevel);
  });

  it('traces are taken where they are asked for, with the right to send them', () => {
    const scoring = createScoring({ compute, tracing: true });
    expect(only(templateOf(scoring), FUNCTION, SCORING)).toMatchObject({ TracingConfig: { Mode: 'Active' } });
    expect(rightsOf(scoring, 'Role', 'xray')).toEqual(['xray:PutTelemetryRecords *', 'xray:PutTraceSegments *']);
  });

  it('traces are not taken otherwise', () => {
    const template = synthesize({ compute });
    expect(only(template, FUNCTION, SCORING)).not.toHaveProperty('TracingConfig');
    expect(JSON.stringify(template.toJSON())).not.toContain('xray');
  });
});

it('traces from a GPU go through an endpoint of its own network', () => {
  expect(endpointsIn(synthesize({ compute: lambdaGpuCompute(), tracing: true }))).toContain('xray');
});
