import { describe, expect, it } from '@jest/globals';
import { Duration, Stack } from 'aws-cdk-lib';
import { Match, type Template } from 'aws-cdk-lib/assertions';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { createScoring, dashboardIn, environmentIn, synthesize, templateOf } from '../helpers/stacks.ts';

const MAPPING = 'AWS::Lambda::EventSourceMapping';
const QUEUE = 'AWS::SQS::Queue';

/** The properties of every event source mapping. */
function mappingsIn(template: Template): Record<string, unknown>[] {
  return Object.values(template.findResources(MAPPING)).map(({ Properties }) => Properties);
}

/** The request queues: those whose messages go to the dead letters. */
function requestQueuesIn(template: Template): { [id: string]: { Properties: Record<string, unknown> } } {
  return template.findResources(QUEUE, { Properties: { RedrivePolicy: Match.anyValue() } }) as never;
}

/** What the outputs and the environment hold where there are several URLs. */
function joined(urls: readonly unknown[]) {
  return { 'Fn::Join': ['', urls.flatMap((url, index) => (index === 0 ? [url] : [',', url]))] };
}

describe('three shards', () => {
  it('are three queues with one queue of dead letters, each with its mapping on the one function', () => {
    const template = synthesize({ shards: 3, batchSize: 500, window: Duration.seconds(5) });
    const queues = requestQueuesIn(template);
    const redrives = Object.values(queues).map(({ Properties }) => JSON.stringify(Properties.RedrivePolicy));
    expect(redrives).toHaveLength(3);
    expect(new Set(redrives).size).toBe(1);
    const [first, ...others] = mappingsIn(template);
    expect(others).toHaveLength(2);
    for (const other of others) expect(other).toEqual({ ...first, EventSourceArn: other.EventSourceArn });
    expect(first).toMatchObject({ BatchSize: 500, MaximumBatchingWindowInSeconds: 5 });
    const sources = mappingsIn(template).map(({ EventSourceArn }) => EventSourceArn);
    expect(sources).toEqual(Object.keys(queues).map((id) => ({ 'Fn::GetAtt': [id, 'Arn'] })));
    template.resourceCountIs('AWS::Lambda::Function', 1);
    template.resourceCountIs(QUEUE, 5);
  });

  it('leave the queue and the mapping of a deployment with one as they are', () => {
    const kept = (template: Template) => ({ ...template.findResources(QUEUE), ...template.findResources(MAPPING) });
    expect(kept(synthesize({ shards: 3 }))).toMatchObject(kept(synthesize()));
  });

  it('are properties, and one URL each, comma-separated, for the function and the clients', () => {
    const scoring = createScoring({ shards: 3 });
    scoring.addClientOutputs();
    const { requestQueue, requestQueues } = scoring;
    const stack = Stack.of(scoring);
    const template = templateOf(scoring);
    const urls = joined(requestQueues.map(({ queueUrl }) => stack.resolve(queueUrl)));
    expect(requestQueues).toHaveLength(3);
    expect(requestQueue).toBe(requestQueues[0]);
    expect(environmentIn(template)[CONFIG_KEYS.requestQueueUrls]).toEqual(urls);
    expect(template.toJSON().Outputs.requestQueueUrl.Value).toEqual(urls);
  });

  it('fit the environment of the function at the most, with names of 80 characters', () => {
    const url = `https://sqs.ap-southeast-1.amazonaws.com/123456789012/${'q'.repeat(80)}`;
    const template = synthesize({ shards: 10, results: ['queue', 'table', 'bucket'], resultsPerMessage: 10_000 });
    const text = Object.entries(environmentIn(template)).map(([key, value]) => {
      const parts =
        typeof value === 'object'
          ? ((value as Record<string, [unknown, unknown[]]>)['Fn::Join']?.[1] ?? [{}])
          : [value];
      return key + parts.map((part) => (typeof part === 'string' ? part : url)).join('');
    });
    expect(text.join('').length).toBeLessThan(4096);
  });
});

describe('what watches three shards', () => {
  it('is one alarm on the oldest message of all', () => {
    const template = synthesize({ shards: 3 });
    const alarm = Object.entries(template.findResources('AWS::CloudWatch::Alarm')).find(([id]) =>
      id.includes('OldestMessage'),
    );
    const metrics: Record<string, unknown>[] = alarm?.[1].Properties.Metrics;
    const [expression, ...ages] = metrics;
    expect(expression).toMatchObject({ Expression: expect.stringMatching(/^MAX\(\[\w+0, \w+1, \w+2\]\)$/) });
    const queues = ages.map((age) => (age.MetricStat as { Metric: { Dimensions: unknown[] } }).Metric.Dimensions[0]);
    expect(queues).toEqual(
      Object.keys(requestQueuesIn(template)).map((id) => ({
        Name: 'QueueName',
        Value: { 'Fn::GetAtt': [id, 'QueueName'] },
      })),
    );
  });

  it('takes no more metrics than an alarm may have, however many shards there are', () => {
    const alarms = Object.values(synthesize({ shards: 10 }).findResources('AWS::CloudWatch::Alarm'));
    const counts = alarms.map(({ Properties }) => {
      const metrics: { MetricStat?: unknown }[] = Properties.Metrics ?? [];
      return metrics.filter(({ MetricStat }) => MetricStat !== undefined).length;
    });
    expect(Math.max(...counts)).toBe(10);
  });

  it('adds up what waits, what is being scored and what the mappings did, and shows the oldest message of all', () => {
    const body = dashboardIn(synthesize({ shards: 3 }));
    for (const [of, metric, label] of [
      ['SUM', 'approximateNumberOfMessagesVisible', 'waiting'],
      ['SUM', 'approximateNumberOfMessagesNotVisible', 'being scored'],
      ['MAX', 'approximateAgeOfOldestMessage', 'oldest'],
      ['SUM', 'polledEventCount', 'polled'],
      ['SUM', 'deletedEventCount', 'deleted'],
    ]) {
      const sum = `${of}([${[0, 1, 2].map((shard) => `${metric}${shard}`).join(', ')}])`;
      expect(body).toContain(`"label":"${label}","expression":"${sum}"`);
    }
  });
});
