import { describe, expect, it } from '@jest/globals';
import { Duration, Stack } from 'aws-cdk-lib';
import { Match, type Template } from 'aws-cdk-lib/assertions';
import { ecsCompute, lambdaCompute } from '../../infra/index.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import {
  createScoring,
  dashboardIn,
  refusalOf,
  synthesize,
  templateOf,
  workerEnvironmentIn,
} from '../helpers/stacks.ts';

const LIMITED = lambdaCompute({ maximumConcurrency: 20, timeout: Duration.seconds(30) });
const QUEUE = 'AWS::SQS::Queue';

function mappingsIn(template: Template): Record<string, unknown>[] {
  return Object.values(template.findResources('AWS::Lambda::EventSourceMapping')).map(({ Properties }) => Properties);
}

function urgentQueueIn(template: Template): string {
  const found = Object.keys(template.findResources(QUEUE)).filter((id) => id.includes('UrgentRequests'));
  expect(found).toHaveLength(1);
  return found[0] as string;
}

function alarmsOn(template: Template, queue: string): string[] {
  const alarms = Object.entries(template.findResources('AWS::CloudWatch::Alarm'));
  return alarms.filter(([, alarm]) => JSON.stringify(alarm).includes(`"${queue}"`)).map(([id]) => id);
}

describe('a deployment with an urgent queue', () => {
  it('hands urgent messages to the same function without a window, and gives dead ones to the same queue', () => {
    const template = synthesize({ urgent: true, compute: LIMITED, batchSize: 500, window: Duration.seconds(5) });
    const redrives = Object.values(template.findResources(QUEUE, { Properties: { RedrivePolicy: Match.anyValue() } }));
    expect(redrives).toHaveLength(2);
    expect(new Set(redrives.map(({ Properties }) => JSON.stringify(Properties.RedrivePolicy))).size).toBe(1);
    const [bulk, urgent] = mappingsIn(template);
    expect(bulk).toMatchObject({ BatchSize: 500, MaximumBatchingWindowInSeconds: 5 });
    expect(urgent).toMatchObject({ BatchSize: 10, EventSourceArn: { 'Fn::GetAtt': [urgentQueueIn(template), 'Arn'] } });
    expect(urgent).not.toHaveProperty('MaximumBatchingWindowInSeconds');
    expect(urgent?.FunctionName).toEqual(bulk?.FunctionName);
  });

  it.each([
    [{ maximumConcurrency: 20 }, 1, [20, 20]],
    [{ reservedConcurrency: 100 }, 1, [90, 10]],
    [{ reservedConcurrency: 100 }, 3, [30, 30, 30, 10]],
    [{ reservedConcurrency: 4 }, 1, [2, 2]],
  ])('keeps room for urgent messages: %j with %d shards', (limits, shards, expected) => {
    const template = synthesize({ urgent: true, shards, compute: lambdaCompute(limits) });
    const concurrency = mappingsIn(template).map(({ ScalingConfig }) => ScalingConfig);
    expect(concurrency).toEqual(expected.map((MaximumConcurrency) => ({ MaximumConcurrency })));
  });

  it('leaves the queue and the mapping of a deployment without one as they are', () => {
    const kept = (template: Template) => ({
      ...template.findResources(QUEUE),
      ...template.findResources('AWS::Lambda::EventSourceMapping'),
    });
    const without = kept(synthesize({ compute: LIMITED }));
    expect(kept(synthesize({ urgent: true, compute: LIMITED }))).toMatchObject(without);
  });

  it('tells clients and the operator where it is, and lets both use it', () => {
    const scoring = createScoring({ urgent: true, compute: LIMITED });
    scoring.addClientOutputs();
    const template = templateOf(scoring);
    const url = Stack.of(scoring).resolve(scoring.urgentQueue?.queueUrl);
    expect(url).toEqual({ Ref: urgentQueueIn(template) });
    expect(template.toJSON().Outputs.urgentQueueUrl.Value).toEqual(url);
    expect(scoring.requestQueues).toHaveLength(1);
  });

  it('has alarms on the age of urgent messages and on those in flight, and lines on the dashboard', () => {
    const template = synthesize({ urgent: true, compute: LIMITED, latencyTarget: Duration.hours(6) });
    const [oldest, inFlight] = [/OldestUrgentMessage/, /MessagesInFlight/].map((name) =>
      alarmsOn(template, urgentQueueIn(template)).find((id) => name.test(id)),
    );
    expect([oldest, inFlight]).not.toContain(undefined);
    template.hasResourceProperties('AWS::CloudWatch::Alarm', {
      AlarmDescription: Match.stringLikeRegexp('oldest urgent request has waited for longer than 30 s'),
      Threshold: 30,
    });
    for (const label of ['urgent, waiting', 'oldest urgent']) {
      expect(dashboardIn(template)).toContain(`"label":"${label}"`);
    }
  });

  it('is polled by the worker, which scales by the backlog of both queues', () => {
    const template = synthesize({ urgent: true, compute: ecsCompute() } as never);
    const urgent = urgentQueueIn(template);
    expect(workerEnvironmentIn(template)[CONFIG_KEYS.urgentQueueUrl]).toEqual({ Ref: urgent });
    const [policy] = Object.values(
      template.findResources('AWS::ApplicationAutoScaling::ScalingPolicy', {
        Properties: { PolicyType: 'TargetTrackingScaling' },
      }),
    );
    expect(JSON.stringify(policy)).toContain(urgent);
    expect(alarmsOn(template, urgent)).toEqual(
      expect.arrayContaining([expect.stringMatching(/Asleep/), expect.stringMatching(/BacklogWithoutTask/)]),
    );
  });

  it.each([
    [{ compute: lambdaCompute() }, 'maximumConcurrency: expected one with urgent'],
    [
      { compute: lambdaCompute({ maximumConcurrency: 20, reservedConcurrency: 30 }) },
      'reservedConcurrency: expected at least 40 = 2 × 20 invocations',
    ],
    [{ compute: LIMITED, shards: 10 }, 'shards: expected a whole number from 1 to 9, got 10'],
    [
      { compute: LIMITED, queueProps: { queueName: 'orders' } },
      'queueProps.queueName: expected none with 2 request queues',
    ],
    [{ compute: ecsCompute(), shards: 4 }, 'shards: expected at most 3 with tasks that scale by the backlog of all'],
  ])('is refused with what would leave it no room: %#', (props, said) => {
    expect(refusalOf({ urgent: true, ...props } as never)).toContain(said);
  });
});
