import { describe, expect, it } from '@jest/globals';
import { Stack } from 'aws-cdk-lib';
import {
  type BatchScoring,
  type Compute,
  ecsCompute,
  ecsGpuCompute,
  lambdaCompute,
  lambdaGpuCompute,
} from '../../infra/index.ts';
import { createApp, createScoring, templateOf } from '../helpers/stacks.ts';

const ACCOUNT = '123456789012';
const REGIONS = ['eu-central-1', 'us-east-1'] as const;

/** Names of what an account has once for all its regions, or all accounts have once. */
const GLOBAL_NAMES = ['DashboardName', 'RoleName', 'ManagedPolicyName', 'BucketName', 'InstanceProfileName'];

describe('two regions of one account', () => {
  it.each([
    ['lambda', lambdaCompute],
    ['lambda-gpu', lambdaGpuCompute],
    ['ecs', ecsCompute],
    ['ecs-gpu', ecsGpuCompute],
  ])('hold one deployment each, with no name that they share (%s)', (kind, compute) => {
    const app = createApp();
    const [frankfurt = [], virginia = []] = REGIONS.map((region) => {
      const stack = new Stack(app, region, { stackName: 'Batchscore', env: { account: ACCOUNT, region } });
      return createScoring<Compute>({ compute: compute(), results: ['queue', 'table', 'bucket'] }, stack);
    }).map(globalNamesIn);
    expect(frankfurt).toEqual([expect.stringMatching(/^Batchscore-Scoring-\w+-eu-central-1$/)]);
    expect(virginia).toEqual([frankfurt[0]?.replace('eu-central-1', 'us-east-1')]);
    // A new network is one of the CDK's own, which looks up the zones of a stack with a region.
    const missing = app.synth().manifest.missing ?? [];
    const ofNetwork = kind === 'lambda' ? [] : REGIONS.map(() => 'availability-zones');
    expect(missing.map(({ provider }) => provider)).toEqual(ofNetwork);
  });
});

function globalNamesIn(scoring: BatchScoring<Compute>): string[] {
  const { Resources } = templateOf(scoring).toJSON();
  const resources: readonly { readonly Properties?: Readonly<Record<string, unknown>> }[] = Object.values(Resources);
  return resources
    .flatMap(({ Properties = {} }) => GLOBAL_NAMES.map((name) => Properties[name]))
    .filter((name) => typeof name === 'string');
}
