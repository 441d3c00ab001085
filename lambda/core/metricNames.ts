/** The CloudWatch namespace of every metric. */
export const METRIC_NAMESPACE = 'batchscore';
/** The dimension that carries the deployment's service name. */
export const SERVICE_DIMENSION = 'service';

type Unit = 'Count' | 'Percent' | 'Milliseconds';

/** The metrics of every host and their units, declared once: hosts emit them, alarms and the dashboard read them. */
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
  ClosedDearer: 'Count',
  ClosedEnd: 'Count',
  BatchSize: 'Count',
  BatchFill: 'Percent',
  DecodeTime: 'Milliseconds',
  Answered: 'Count',
  Requests: 'Count',
  Errors: 'Count',
  Retries: 'Count',
  MissingOrDenied: 'Count',
  BatchMismatch: 'Count',
  AbandonedRuns: 'Count',
  HostsEnded: 'Count',
} as const satisfies Record<string, Unit>;

/** Those of workers with a GPU, a value for each card. */
export const GPU_METRIC_UNITS = {
  GpuUtilization: 'Percent',
  GpuMemoryUtilization: 'Percent',
} as const satisfies Record<string, Unit>;

export const ALL_METRIC_UNITS = { ...METRIC_UNITS, ...GPU_METRIC_UNITS };

export type MetricName = keyof typeof ALL_METRIC_UNITS;
