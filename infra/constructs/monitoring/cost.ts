import { type IMetric, MathExpression, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { ALL_METRIC_UNITS, METRIC_UNITS } from '../../../lambda/core/metricNames.ts';
import { PERIOD } from '../base/period.ts';
import { scoringMetric } from './metrics.ts';
import { queuesOf, type Subject } from './subject.ts';

/** Messages in one SQS request: all here use batch requests, which are full when there is much to move. */
const MESSAGES_PER_SQS_REQUEST = 10;
/** SQS bills each of them as one request. */
const BILLED_BYTES = 65_536;

/** US dollars per thousand rows: compute, SQS requests, result writes and CloudWatch in a period, divided by its rows. */
export function costPerThousandRows(subject: Subject): MathExpression {
  const terms: Record<string, IMetric> = {
    computeUsd: subject.compute.cost,
    ...Object.fromEntries(
      queuesOf(subject).map((queue, index) => [`queueUsd${index}`, queueCost(queue, index, subject)]),
    ),
    ...storeCosts(subject),
    cloudWatchUsd: cloudWatchCost(subject),
  };
  return new MathExpression({
    label: 'US dollars per thousand rows',
    period: PERIOD,
    expression: `1000 * (${Object.keys(terms).join(' + ')}) / rows`,
    usingMetrics: { ...terms, rows: scoringMetric(subject.serviceName, 'Rows') },
  });
}

/** Messages that are full of results count by their bytes, as if each were as large as it may be. */
function queueCost(queue: IQueue, index: number, subject: Subject): MathExpression {
  const { prices, stores, resultsPerMessage, resultMessageBytes } = subject;
  const packed = queue === stores.resultQueue && resultsPerMessage !== 1;
  const perRequest = packed ? BILLED_BYTES / resultMessageBytes : MESSAGES_PER_SQS_REQUEST;
  const options = { statistic: Stats.SUM, period: PERIOD };
  const perMillion = queue.fifo ? prices.sqsFifoMillionRequests : prices.sqsStandardMillionRequests;
  const id = (name: string): string => `${name}${index}`;
  const moved = `FILL(${id('sent')}, 0) + FILL(${id('received')}, 0) + FILL(${id('deleted')}, 0)`;
  return new MathExpression({
    label: `queue ${index}`,
    period: PERIOD,
    expression: `((${moved}) / ${perRequest} + FILL(${id('empty')}, 0)) * ${perMillion} / 1000000`,
    usingMetrics: {
      [id('sent')]: queue.metricNumberOfMessagesSent(options),
      [id('received')]: queue.metricNumberOfMessagesReceived(options),
      [id('deleted')]: queue.metricNumberOfMessagesDeleted(options),
      [id('empty')]: queue.metricNumberOfEmptyReceives(options),
    },
  });
}

/** One write unit for each result in the table, and one object for each write to the bucket, of scores or of errors. */
function storeCosts({ serviceName, stores, prices }: Subject): Record<string, IMetric> {
  const costs: Record<string, IMetric> = {};
  if (stores.resultTable !== undefined) {
    costs.tableUsd = new MathExpression({
      label: 'table',
      period: PERIOD,
      expression: `answeredRecords * ${prices.dynamodbMillionWrites} / 1000000`,
      usingMetrics: { answeredRecords: scoringMetric(serviceName, 'Answered') },
    });
  }
  if (stores.resultBucket !== undefined) {
    costs.bucketUsd = new MathExpression({
      label: 'bucket',
      period: PERIOD,
      expression: `writes * ${prices.s3ThousandPuts} / 1000`,
      usingMetrics: { writes: scoringMetric(serviceName, 'WriteTime', { statistic: Stats.SAMPLE_COUNT }) },
    });
  }
  return costs;
}

const HOURS_A_MONTH = 730;
const BYTES_A_GIB = 1024 ** 3;

/** What the host logs, and its metrics, which are paid for in the hours in which it emits them. */
function cloudWatchCost({ serviceName, prices, compute }: Subject): MathExpression {
  const metrics = Object.keys(compute.measuresGpus ? ALL_METRIC_UNITS : METRIC_UNITS).length;
  const metricsHour = (metrics * prices.metricMonth) / HOURS_A_MONTH;
  const logs = compute.logGroup?.metricIncomingBytes({ statistic: Stats.SUM, period: PERIOD });
  const logged = logs === undefined ? '' : ` + FILL(logBytes, 0) / ${BYTES_A_GIB} * ${prices.logGb}`;
  return new MathExpression({
    label: 'CloudWatch',
    period: PERIOD,
    expression: `IF(FILL(invoked, 0) > 0, ${metricsHour}, 0) * PERIOD(invoked) / 3600${logged}`,
    usingMetrics: {
      invoked: scoringMetric(serviceName, 'BatchSize', { statistic: Stats.SAMPLE_COUNT }),
      ...(logs !== undefined && { logBytes: logs }),
    },
  });
}
