import { describe, expect, it } from '@jest/globals';
import { Duration } from 'aws-cdk-lib';
import { type IMetric, Metric } from 'aws-cdk-lib/aws-cloudwatch';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, DockerImageCode, DockerImageFunction } from 'aws-cdk-lib/aws-lambda';
import {
  type Compute,
  type ComputeForm,
  concurrencyProblems,
  createLogGroup,
  createScoringFunction,
  type FunctionCompute,
  feedFromQueues,
  functionAlarms,
  functionCost,
  functionGraph,
  type Graph,
  grantSwitch,
  minVisibility,
  PERIOD,
  type Problem,
  type Wiring,
} from '../../infra/index.ts';
import { createScoring, environmentIn, only, refusalOf, templateOf } from '../helpers/stacks.ts';

const TIMEOUT_SECONDS = 45;
const MEMORY_MB = 2048;
const ARM = Architecture.ARM_64;

/** A function whose image has an entry point of its own: all but the function is made of the exported parts. */
function wrappedCompute(entrypoint: string[], maximumConcurrency?: number): ComputeForm<FunctionCompute> {
  return {
    kind: 'wrapped',
    imageTarget: { stage: 'lambda', architecture: ARM },
    timeoutSeconds: TIMEOUT_SECONDS,
    problems: ({ shards }) => concurrencyProblems({ maximumConcurrency }, shards),
    minVisibility: (batching) => minVisibility(TIMEOUT_SECONDS, batching),
    create(scope, wiring) {
      const { repository, tagOrDigest } = wiring.image;
      const wrapped = new DockerImageFunction(scope, 'Function', {
        code: DockerImageCode.fromEcr(repository, { tagOrDigest, entrypoint }),
        architecture: ARM,
        memorySize: MEMORY_MB,
        timeout: Duration.seconds(TIMEOUT_SECONDS),
        environment: { ...wiring.environment },
        logGroup: createLogGroup(scope, 'Log', wiring),
      });
      return functionComputeOf(wrapped, wiring, maximumConcurrency);
    },
  };
}

function functionComputeOf(
  scoringFunction: DockerImageFunction,
  wiring: Wiring,
  maximumConcurrency?: number,
): FunctionCompute {
  const { eventSourceMappings, graph } = feedFromQueues(scoringFunction, wiring, { maximumConcurrency });
  return {
    function: scoringFunction,
    alias: undefined,
    eventSourceMappings,
    grantPrincipal: scoringFunction.grantPrincipal,
    grantSwitch: (grantee) => grantSwitch(grantee, scoringFunction, eventSourceMappings),
    alarms: functionAlarms(scoringFunction),
    graphs: [functionGraph(scoringFunction, TIMEOUT_SECONDS), graph],
    cost: functionCost(scoringFunction, { architecture: ARM, memoryMb: MEMORY_MB }, wiring.prices),
  };
}

interface Elsewhere extends Compute {
  readonly environment: Readonly<Record<string, string>>;
}

/** Scoring that another system runs: nothing is created but the role that it takes. */
function computeElsewhere(problem?: Problem): ComputeForm<Elsewhere> {
  const graphs: Graph[] = [];
  const free: IMetric = new Metric({ namespace: 'Elsewhere', metricName: 'Cost', period: PERIOD });
  return {
    kind: 'elsewhere',
    imageTarget: { stage: 'lambda', architecture: ARM },
    timeoutSeconds: 900,
    problems: () => [problem],
    minVisibility: () => ({ seconds: 1000, sum: '900 s of work and 100 s to spare' }),
    create(scope, { environment }) {
      const grantPrincipal = new Role(scope, 'Role', { assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com') });
      return { grantPrincipal, environment, alarms: [], graphs, cost: free };
    },
  };
}

describe('a function of your own, made of the exported parts', () => {
  const scoring = createScoring({
    compute: wrappedCompute(['/opt/wrapper'], 7),
    batchSize: 50,
    eventSourceEnabled: false,
  });
  const template = templateOf(scoring);

  it('has the image, the environment and the feed that the construct would give it', () => {
    expect(only(template, 'AWS::Lambda::Function')).toMatchObject({
      ImageConfig: { EntryPoint: ['/opt/wrapper'] },
      MemorySize: 2048,
      Timeout: 45,
      LoggingConfig: { LogGroup: { Ref: expect.stringContaining('ScoringComputewrappedLog') } },
    });
    expect(environmentIn(template)).toMatchObject({ BATCHSCORE_BATCH_SIZE: '50' });
    expect(only(template, 'AWS::Lambda::EventSourceMapping')).toMatchObject({
      BatchSize: 50,
      Enabled: false,
      ScalingConfig: { MaximumConcurrency: 7 },
    });
    template.hasResourceProperties('AWS::SQS::Queue', { VisibilityTimeout: 6 * 45 + 1 });
  });
});

describe('compute without a function', () => {
  it('gets queues, stores and permissions, and no function', () => {
    const scoring = createScoring({ compute: computeElsewhere(), results: ['table'] });
    const template = templateOf(scoring);
    template.resourceCountIs('AWS::Lambda::Function', 0);
    template.resourceCountIs('AWS::DynamoDB::Table', 1);
    template.hasResourceProperties('AWS::SQS::Queue', { VisibilityTimeout: 1000 });
    expect(JSON.stringify(template.findResources('AWS::IAM::Policy'))).toContain('"dynamodb:BatchWriteItem"');
    expect(scoring.compute.environment.BATCHSCORE_RESULTS).toBe('table');
  });

  it('gathers as it likes where no mapping feeds it', () => {
    const props = { fifo: true, batchSize: 50, window: Duration.seconds(2) };
    expect(refusalOf({ ...props, compute: computeElsewhere() })).toContain('batchSize: expected at most 10 on a FIFO');
    const compute: ComputeForm<Elsewhere> = { ...computeElsewhere(), feed: 'worker' };
    const { environment } = createScoring({ ...props, compute }).compute;
    expect(environment).toMatchObject({ BATCHSCORE_BATCH_SIZE: '50', BATCHSCORE_WINDOW_SECONDS: '2' });
  });

  it('says itself what is wrong', () => {
    expect(() =>
      createScoring({ compute: computeElsewhere('elsewhere: expected a place, got none; find one') }),
    ).toThrow('elsewhere: expected a place, got none; find one');
  });
});

it('the function of lambdaCompute can be made with other options', () => {
  const compute: ComputeForm<FunctionCompute> = {
    ...wrappedCompute([]),
    create: (scope, wiring) =>
      functionComputeOf(
        createScoringFunction(scope, { architecture: ARM, memoryMb: 512, timeoutSeconds: TIMEOUT_SECONDS }, wiring),
        wiring,
      ),
  };
  expect(only(templateOf(createScoring({ compute })), 'AWS::Lambda::Function')).toMatchObject({ MemorySize: 512 });
});
