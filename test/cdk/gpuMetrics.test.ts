import { describe, expect, it } from '@jest/globals';
import { ecsCompute, ecsGpuCompute } from '../../infra/index.ts';
import { ALL_METRIC_UNITS, GPU_METRIC_UNITS, METRIC_UNITS } from '../../lambda/core/observer.ts';
import { createScoring, dashboardIn, templateOf } from '../helpers/stacks.ts';

const GPU_METRICS = Object.keys(GPU_METRIC_UNITS);

type Compute = ReturnType<typeof ecsCompute>;
const dashboardOf = (compute: Compute) => {
  const scoring = createScoring({ compute });
  return { body: dashboardIn(templateOf(scoring)), serviceName: scoring.serviceName };
};

describe('metrics of GPUs', () => {
  it('are on the dashboard of workers with GPUs, of this deployment only', () => {
    const { body, serviceName } = dashboardOf(ecsGpuCompute());

    for (const name of GPU_METRICS) expect(body).toContain(`"batchscore","${name}","service","${serviceName}"`);
  });

  it('are paid for where they are emitted', () => {
    const metricsHour = (units: object) => `IF(FILL(invoked, 0) > 0, ${(Object.keys(units).length * 0.3) / 730}, 0)`;

    expect(dashboardOf(ecsGpuCompute()).body).toContain(metricsHour(ALL_METRIC_UNITS));
    expect(dashboardOf(ecsCompute()).body).toContain(metricsHour(METRIC_UNITS));
  });
});
