/** The environment variables of every host, declared once: the runtime reads them, the infrastructure sets them. */
export const CONFIG_KEYS = {
  modelsDirectory: 'BATCHSCORE_MODELS_DIR',
  modelsUri: 'BATCHSCORE_MODELS_URI',
  defaultModel: 'BATCHSCORE_DEFAULT_MODEL',
  preload: 'BATCHSCORE_PRELOAD',
  providers: 'BATCHSCORE_PROVIDERS',
  allowProviderFallback: 'BATCHSCORE_ALLOW_PROVIDER_FALLBACK',
  maxBatchRows: 'BATCHSCORE_MAX_BATCH_ROWS',
  maxBatchElements: 'BATCHSCORE_MAX_BATCH_ELEMENTS',
  maxRequestRows: 'BATCHSCORE_MAX_REQUEST_ROWS',
  maxRequestsPerMessage: 'BATCHSCORE_MAX_REQUESTS_PER_MESSAGE',
  maxAnswerCharacters: 'BATCHSCORE_MAX_ANSWER_CHARACTERS',
  deadlineMarginMs: 'BATCHSCORE_DEADLINE_MARGIN_MS',
  checkPercent: 'BATCHSCORE_CHECK_PERCENT',
  serviceName: 'BATCHSCORE_SERVICE_NAME',
  logLevel: 'BATCHSCORE_LOG_LEVEL',
  batchSize: 'BATCHSCORE_BATCH_SIZE',
  windowSeconds: 'BATCHSCORE_WINDOW_SECONDS',
  timeoutSeconds: 'BATCHSCORE_TIMEOUT_SECONDS',
  visibilitySeconds: 'BATCHSCORE_VISIBILITY_SECONDS',
  stopSeconds: 'BATCHSCORE_STOP_SECONDS',
  mostPolls: 'BATCHSCORE_MOST_POLLS',
  pipelineDepth: 'BATCHSCORE_PIPELINE_DEPTH',
  healthPort: 'BATCHSCORE_HEALTH_PORT',
  requestQueueUrls: 'BATCHSCORE_REQUEST_QUEUE_URL',
  results: 'BATCHSCORE_RESULTS',
  resultQueueUrl: 'BATCHSCORE_RESULT_QUEUE_URL',
  resultsPerMessage: 'BATCHSCORE_RESULTS_PER_MESSAGE',
  resultMessageBytes: 'BATCHSCORE_RESULT_MESSAGE_BYTES',
  resultTable: 'BATCHSCORE_RESULT_TABLE',
  resultTtlSeconds: 'BATCHSCORE_RESULT_TTL_SECONDS',
  resultBucket: 'BATCHSCORE_RESULT_BUCKET',
  resultPrefix: 'BATCHSCORE_RESULT_PREFIX',
  payloadBucket: 'BATCHSCORE_PAYLOAD_BUCKET',
  payloadPrefix: 'BATCHSCORE_PAYLOAD_PREFIX',
  maxPayloadBytes: 'BATCHSCORE_MAX_PAYLOAD_BYTES',
} as const;

/** Those of the two functions of jobs, besides what of the above is about models, runs and logs. */
export const JOB_CONFIG_KEYS = {
  jobsPartBytes: 'BATCHSCORE_JOBS_PART_BYTES',
  jobsPieceBytes: 'BATCHSCORE_JOBS_PIECE_BYTES',
  jobsBucket: 'BATCHSCORE_JOBS_BUCKET',
  jobsInputPrefix: 'BATCHSCORE_JOBS_INPUT_PREFIX',
  jobsOutputPrefix: 'BATCHSCORE_JOBS_OUTPUT_PREFIX',
  jobsStateMachine: 'BATCHSCORE_JOBS_STATE_MACHINE',
  jobsConcurrency: 'BATCHSCORE_JOBS_CONCURRENCY',
} as const;

export const CONFIG_PREFIX = 'BATCHSCORE_';

/** ONNX Runtime's own: 1 in the environment of the process turns its telemetry off. */
export const RUNTIME_TELEMETRY_OFF = 'ORT_DISABLE_TELEMETRY';
