/** The CloudWatch namespace of every metric. */
export const METRIC_NAMESPACE = 'batchscore';
/** The dimension that carries the deployment's service name. */
export const SERVICE_DIMENSION = 'service';

/** Every metric and its unit, declared once: the hosts emit them, alarms and the dashboard read them. */
export const METRIC_UNITS = {
  MicroBatches: 'Count',
  Rows: 'Count',
  PaddingRows: 'Count',
  PaddingShare: 'Percent',
  Fill: 'Percent',
  StackTime: 'Milliseconds',
  RunTime: 'Milliseconds',
  CheckTime: 'Milliseconds',
  EncodeTime: 'Milliseconds',
  WriteTime: 'Milliseconds',
  ClosedFull: 'Count',
  ClosedBudget: 'Count',
  ClosedPadding: 'Count',
  ClosedEnd: 'Count',
  BatchSize: 'Count',
  BatchFill: 'Percent',
  DecodeTime: 'Milliseconds',
  Answered: 'Count',
  Requests: 'Count',
  Errors: 'Count',
  Retries: 'Count',
  BatchMismatch: 'Count',
  AbandonedRuns: 'Count',
  HostsEnded: 'Count',
} as const satisfies Record<string, 'Count' | 'Percent' | 'Milliseconds'>;

export type MetricName = keyof typeof METRIC_UNITS;
