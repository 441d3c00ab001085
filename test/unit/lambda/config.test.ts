import { totalmem } from 'node:os';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { CONFIG_KEYS } from '../../../lambda/configKeys.ts';
import { RANGES, RANGES_BY_MEMORY } from '../../../lambda/core/limits.ts';
import { loadConfig } from '../../../lambda/hosts/config.ts';

const QUEUES = {
  BATCHSCORE_REQUEST_QUEUE_URL: 'https://sqs.eu-central-1.amazonaws.com/123456789012/requests',
  BATCHSCORE_RESULT_QUEUE_URL: 'https://sqs.eu-central-1.amazonaws.com/123456789012/results',
};

function refusalOf(environment: Record<string, string>): string {
  try {
    loadConfig(environment);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return 'the configuration was accepted';
}

/** No more than a string or a buffer of Node holds. */
const shares = (bytes: number) =>
  [RANGES_BY_MEMORY.maxPayloadBytes, RANGES_BY_MEMORY.maxAnswerCharacters].map(({ most }) => Math.min(bytes, most));

const empty = (name: string): [string, string] => [`BATCHSCORE_${name}`, ''];

afterEach(() => {
  jest.restoreAllMocks();
});

describe('the configuration', () => {
  it('needs the two queues, and has a default for everything else', () => {
    expect(loadConfig({ ...QUEUES, AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769' })).toEqual({
      modelsDirectory: 'models',
      preload: true,
      providers: ['cpu'],
      allowProviderFallback: false,
      serviceName: 'batchscore',
      tracing: false,
      timeoutSeconds: 60,
      visibilitySeconds: 60,
      stopSeconds: 30,
      mostPolls: 16,
      pipelineDepth: 2,
      healthPort: 0,
      maxBatchRows: 512,
      maxBatchElements: 4_194_304,
      maxRequestRows: 10_000,
      maxRequestsPerMessage: 10_000,
      maxAnswerCharacters: 28_983_296,
      deadlineMarginMs: 1_000,
      checkPercent: 1,
      results: ['queue'],
      resultsPerMessage: 1,
      resultMessageBytes: 65_536,
      resultTtlSeconds: 604_800,
      maxPayloadBytes: 28_983_296,
      requestQueueUrls: [QUEUES.BATCHSCORE_REQUEST_QUEUE_URL],
      resultQueueUrl: QUEUES.BATCHSCORE_RESULT_QUEUE_URL,
    });
  });

  it.each([
    ['its container', 2 ** 29, 2 ** 23],
    ['the machine, where its container has no limit', 0, Math.floor(totalmem() / 64)],
    ['the machine, where the limit of its container is no limit', 2 ** 50, Math.floor(totalmem() / 64)],
  ])('leaves a message its share of the memory of %s', (_, limitBytes, share) => {
    jest.spyOn(process, 'constrainedMemory').mockReturnValue(limitBytes);

    const { maxPayloadBytes, maxAnswerCharacters } = loadConfig(QUEUES);

    expect([maxPayloadBytes, maxAnswerCharacters]).toEqual(shares(share));
  });

  it('reads every variable', () => {
    const config = loadConfig({
      ...QUEUES,
      BATCHSCORE_MODELS_DIR: '/opt/models',
      BATCHSCORE_DEFAULT_MODEL: 'digits',
      BATCHSCORE_PRELOAD: 'false',
      BATCHSCORE_PROVIDERS: 'cuda, cpu',
      BATCHSCORE_ALLOW_PROVIDER_FALLBACK: 'true',
      BATCHSCORE_SERVICE_NAME: 'fraud',
      BATCHSCORE_LOG_LEVEL: 'debug',
      BATCHSCORE_TRACING: 'true',
      BATCHSCORE_TIMEOUT_SECONDS: '120',
      BATCHSCORE_VISIBILITY_SECONDS: '90',
      BATCHSCORE_STOP_SECONDS: '100',
      BATCHSCORE_MOST_POLLS: '8',
      BATCHSCORE_PIPELINE_DEPTH: '3',
      BATCHSCORE_HOP_THREADS: '4',
      BATCHSCORE_HEALTH_PORT: '8080',
      BATCHSCORE_BATCH_SIZE: '500',
      BATCHSCORE_WINDOW_SECONDS: '0',
      BATCHSCORE_MAX_BATCH_ROWS: '64',
      BATCHSCORE_MAX_BATCH_ELEMENTS: '1000',
      BATCHSCORE_MAX_REQUEST_ROWS: '20',
      BATCHSCORE_MAX_REQUESTS_PER_MESSAGE: '30',
      BATCHSCORE_MAX_ANSWER_CHARACTERS: '4000',
      BATCHSCORE_DEADLINE_MARGIN_MS: '500',
      BATCHSCORE_CHECK_PERCENT: '20',
      BATCHSCORE_RESULTS: 'queue, table,bucket',
      BATCHSCORE_RESULTS_PER_MESSAGE: '100',
      BATCHSCORE_RESULT_MESSAGE_BYTES: '262144',
      BATCHSCORE_RESULT_TABLE: 'results-table',
      BATCHSCORE_RESULT_TTL_SECONDS: '60',
      BATCHSCORE_RESULT_BUCKET: 'results-bucket',
      BATCHSCORE_RESULT_PREFIX: 'lake/fraud/',
      BATCHSCORE_PAYLOAD_BUCKET: 'payloads',
      BATCHSCORE_PAYLOAD_PREFIX: 'fraud/',
      BATCHSCORE_MAX_PAYLOAD_BYTES: '1000',
    });

    expect(config).toEqual({
      modelsDirectory: '/opt/models',
      defaultModel: 'digits',
      preload: false,
      providers: ['cuda', 'cpu'],
      allowProviderFallback: true,
      serviceName: 'fraud',
      logLevel: 'debug',
      tracing: true,
      timeoutSeconds: 120,
      visibilitySeconds: 90,
      stopSeconds: 100,
      mostPolls: 8,
      pipelineDepth: 3,
      hopThreads: 4,
      healthPort: 8080,
      batchSize: 500,
      windowSeconds: 0,
      maxBatchRows: 64,
      maxBatchElements: 1000,
      maxRequestRows: 20,
      maxRequestsPerMessage: 30,
      maxAnswerCharacters: 4000,
      deadlineMarginMs: 500,
      checkPercent: 20,
      results: ['queue', 'table', 'bucket'],
      resultsPerMessage: 100,
      resultMessageBytes: 262_144,
      resultTable: 'results-table',
      resultTtlSeconds: 60,
      resultBucket: 'results-bucket',
      resultPrefix: 'lake/fraud/',
      payloadBucket: 'payloads',
      payloadPrefix: 'fraud/',
      maxPayloadBytes: 1000,
      requestQueueUrls: [QUEUES.BATCHSCORE_REQUEST_QUEUE_URL],
      resultQueueUrl: QUEUES.BATCHSCORE_RESULT_QUEUE_URL,
    });
    // Models come from a folder or from S3.
    expect([...Object.keys(config), 'modelsUri'].toSorted()).toEqual(Object.keys(CONFIG_KEYS).toSorted());
  });

  it('leaves the variables of others alone', () => {
    expect(loadConfig({ ...QUEUES, PATH: '/bin', AWS_REGION: 'eu-central-1', MAX_BATCH_ROWS: 'x' }).maxBatchRows).toBe(
      512,
    );
  });

  it('takes a variable that is not set for one that is not there', () => {
    expect(loadConfig({ ...QUEUES, BATCHSCORE_MAX_BATCH_ROWS: undefined }).maxBatchRows).toBe(512);
  });

  it('cannot be changed once it is read', () => {
    expect(Object.isFrozen(loadConfig(QUEUES))).toBe(true);
  });

  it.each(Object.entries(RANGES))(
    'takes %s within its range alone, and says which that is',
    (name, { least, most }) => {
      const key = CONFIG_KEYS[name as keyof typeof RANGES];
      for (const value of [least, most]) {
        expect(refusalOf({ ...QUEUES, [key]: String(value) })).toBe('the configuration was accepted');
      }
      for (const value of [String(least - 1), String(most + 1), `${least}.5`, 'many', '']) {
        const expected = `a whole number from ${least} to ${most}${name === 'resultsPerMessage' ? ", or 'fill'" : ''}`;
        expect(refusalOf({ ...QUEUES, [key]: value })).toBe(
          `configuration: ${key}: expected ${expected}, got ${JSON.stringify(value)}`,
        );
      }
    },
  );

  it.each([
    ...['MODELS_DIR', 'MODELS_URI', 'DEFAULT_MODEL', 'PROVIDERS', 'ALLOW_PROVIDER_FALLBACK', 'RESULTS'].map(empty),
    ...['RESULT_TABLE', 'RESULT_BUCKET', 'PAYLOAD_BUCKET', 'WINDOW_SECONDS', 'RESULT_QUEUE_URL'].map(empty),
    ['BATCHSCORE_MODELS_URI', 's3://bucket/models'],
    ['BATCHSCORE_PROVIDERS', 'cuda,,cpu'],
    ['BATCHSCORE_ALLOW_PROVIDER_FALLBACK', 'yes'],
    ['BATCHSCORE_RESULTS', 'queue,topic'],
    ['BATCHSCORE_RESULT_PREFIX', 'lake'],
    ['BATCHSCORE_PAYLOAD_PREFIX', '/'],
    ['BATCHSCORE_PAYLOAD_PREFIX', 'fraud/requests/'],
    ['BATCHSCORE_MAX_PAYLOAD_BYTES', '0'],
    ['BATCHSCORE_WINDOW_SECONDS', '300.5'],
    ['BATCHSCORE_REQUEST_QUEUE_URL', 'https://sqs.aws/1/a,'],
    ['BATCHSCORE_REQUEST_QUEUE_URL', 'https://sqs.aws/1/a,https://sqs.aws/1/a'],
  ] as [string, string][])('is refused when %s is %j, naming the variable and what it is', (key, value) => {
    const message = refusalOf({ ...QUEUES, [key]: value });

    expect(message).toMatch(new RegExp(`^configuration: ${key}: [^;]+, got ${JSON.stringify(value)}$`));
  });

  it('takes models from S3, and then from no folder', () => {
    const uri = `s3://bucket/models/${'0'.repeat(64)}`;
    expect(loadConfig({ ...QUEUES, BATCHSCORE_MODELS_URI: uri }).modelsUri).toBe(uri);
    expect(refusalOf({ ...QUEUES, BATCHSCORE_MODELS_URI: uri, BATCHSCORE_MODELS_DIR: 'models' })).toBe(
      'configuration: BATCHSCORE_MODELS_URI: expected it or BATCHSCORE_MODELS_DIR, got both; unset one of them',
    );
  });

  it.each(Object.keys(QUEUES))('is refused without %s, and says to set it', (key) => {
    const others = Object.fromEntries(Object.entries(QUEUES).filter(([name]) => name !== key));

    expect(refusalOf(others)).toMatch(new RegExp(`^configuration: ${key}: .*, got nothing; set it$`));
  });

  it.each([
    ['table', 'BATCHSCORE_RESULT_TABLE'],
    ['bucket', 'BATCHSCORE_RESULT_BUCKET'],
  ])('is refused when results go to the %s and %s is not set', (store, key) => {
    expect(refusalOf({ ...QUEUES, BATCHSCORE_RESULTS: `queue,${store}` })).toMatch(
      new RegExp(`^configuration: ${key}: .*${store}.*, got nothing; set it$`),
    );
  });

  it.each(['fill', '2'])('is refused when results share messages by %s and none go to a queue', (value) => {
    const { BATCHSCORE_REQUEST_QUEUE_URL } = QUEUES;
    const table = { BATCHSCORE_RESULTS: 'table', BATCHSCORE_RESULT_TABLE: 't', BATCHSCORE_RESULTS_PER_MESSAGE: value };
    expect(refusalOf({ BATCHSCORE_REQUEST_QUEUE_URL, ...table })).toBe(
      'configuration: BATCHSCORE_RESULTS_PER_MESSAGE: expected 1, because no results go to a queue, ' +
        `got "${value}"; unset it`,
    );
  });

  it('is refused when results of a standard queue are to share messages of a FIFO queue', () => {
    const fifo = (key: keyof typeof QUEUES) => ({ [key]: `${QUEUES[key]}.fifo` });
    const packed = { ...QUEUES, BATCHSCORE_RESULTS_PER_MESSAGE: 'fill' };
    expect(refusalOf({ ...packed, ...fifo('BATCHSCORE_RESULT_QUEUE_URL') })).toBe(
      'configuration: BATCHSCORE_RESULTS_PER_MESSAGE: expected 1, because results of a standard request queue have no ' +
        'message group to share on a FIFO result queue, got "fill"; unset it, or use queues of one kind',
    );
    const both = { ...fifo('BATCHSCORE_RESULT_QUEUE_URL'), ...fifo('BATCHSCORE_REQUEST_QUEUE_URL') };
    expect(loadConfig({ ...packed, ...both }).resultsPerMessage).toBe('fill');
  });

  it('is refused when results go to a request queue', () => {
    const { BATCHSCORE_REQUEST_QUEUE_URL: url } = QUEUES;
    expect(refusalOf({ BATCHSCORE_REQUEST_QUEUE_URL: `https://a/b,${url}`, BATCHSCORE_RESULT_QUEUE_URL: url })).toBe(
      `configuration: BATCHSCORE_RESULT_QUEUE_URL: expected another queue than the requests', got "${url}"; give each its own`,
    );
  });

  it('takes several request queues, with spaces after their commas', () => {
    const config = loadConfig({ ...QUEUES, BATCHSCORE_REQUEST_QUEUE_URL: 'https://sqs.aws/1/a, https://sqs.aws/1/b' });

    expect(config.requestQueueUrls).toEqual(['https://sqs.aws/1/a', 'https://sqs.aws/1/b']);
  });

  it('needs no result queue when no results go there', () => {
    const { BATCHSCORE_REQUEST_QUEUE_URL } = QUEUES;
    const environment = { BATCHSCORE_REQUEST_QUEUE_URL, BATCHSCORE_RESULTS: 'table', BATCHSCORE_RESULT_TABLE: 't' };

    expect(loadConfig(environment)).toMatchObject({ results: ['table'], resultTable: 't' });
  });

  it.each([
    ['BATCHSCORE_MAX_BATCH_ROW', 'did you mean BATCHSCORE_MAX_BATCH_ROWS, a whole number from 1 to 65536?'],
    ['BATCHSCORE_WINDOWSECONDS', 'did you mean BATCHSCORE_WINDOW_SECONDS, a number from 0 to 300?'],
    ['BATCHSCORE_LOGLEVEL', 'did you mean BATCHSCORE_LOG_LEVEL, one of debug, info, warn, error?'],
    ['BATCHSCORE_COLOUR', 'docs/configuration.md lists them'],
  ])('is refused for %s, which it does not know, with the nearest that it knows and its range', (key, hint) => {
    expect(refusalOf({ ...QUEUES, [key]: '64' })).toBe(
      `configuration: ${key}: expected a variable of batchscore, got an unknown one; ${hint}`,
    );
  });

  it.each([
    ['BATCHSCORE_WINDOW_SECONDS', '-1', 'a number from 0 to 300'],
    ['BATCHSCORE_TRACING', 'on', 'true or false'],
    ['BATCHSCORE_LOG_LEVEL', 'loud', 'one of debug, info, warn, error'],
    ['BATCHSCORE_RESULTS', 'queue,tabel', 'one or several of queue, table, bucket, comma-separated, each once'],
    ['BATCHSCORE_REQUEST_QUEUE_URL', 'a,b', 'the URLs of SQS queues, comma-separated, each once'],
    ['BATCHSCORE_RESULT_TABLE', '', 'the name of a DynamoDB table'],
  ])('says once what %s takes, when it is %j', (key, value, expected) => {
    expect(refusalOf({ ...QUEUES, [key]: value })).toBe(
      `configuration: ${key}: expected ${expected}, got ${JSON.stringify(value)}`,
    );
  });

  it('is refused for everything that is wrong with it at once', () => {
    const message = refusalOf({
      BATCHSCORE_COLOUR: 'red',
      BATCHSCORE_MAX_BATCH_ROWS: '0',
      BATCHSCORE_PROVIDERS: '',
    });

    const named = message.slice('configuration: '.length).split('; BATCHSCORE_');
    expect(message).toContain('BATCHSCORE_COLOUR: ');
    expect(message).toContain('BATCHSCORE_MAX_BATCH_ROWS: ');
    expect(message).toContain('BATCHSCORE_PROVIDERS: ');
    expect(message).toContain('BATCHSCORE_REQUEST_QUEUE_URL: ');
    expect(message).toContain('BATCHSCORE_RESULT_QUEUE_URL: ');
    expect(named).toHaveLength(5);
  });
});
