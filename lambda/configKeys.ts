/** The environment variables of every host, declared once: the runtime reads them, the infrastructure sets them. */
export const CONFIG_KEYS = {
  modelsDirectory: 'BATCHSCORE_MODELS_DIR',
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
  serviceName: 'BATCHSCORE_SERVICE_NAME',
  batchSize: 'BATCHSCORE_BATCH_SIZE',
  windowSeconds: 'BATCHSCORE_WINDOW_SECONDS',
  requestQueueUrl: 'BATCHSCORE_REQUEST_QUEUE_URL',
  results: 'BATCHSCORE_RESULTS',
  resultQueueUrl: 'BATCHSCORE_RESULT_QUEUE_URL',
  resultsPerMessage: 'BATCHSCORE_RESULTS_PER_MESSAGE',
  resultMessageBytes: 'BATCHSCORE_RESULT_MESSAGE_BYTES',
  resultTable: 'BATCHSCORE_RESULT_TABLE',
  resultTtlSeconds: 'BATCHSCORE_RESULT_TTL_SECONDS',
  resultBucket: 'BATCHSCORE_RESULT_BUCKET',
  payloadBucket: 'BATCHSCORE_PAYLOAD_BUCKET',
  maxPayloadBytes: 'BATCHSCORE_MAX_PAYLOAD_BYTES',
} as const;

export const CONFIG_PREFIX = 'BATCHSCORE_';
