import { totalmem } from 'node:os';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { loadConfig } from '../../../lambda/hosts/config.ts';
import { SETTINGS, type Setting } from '../../../lambda/settings.ts';

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
  [SETTINGS.maxPayloadBytes, SETTINGS.maxAnswerCharacters].map(({ max }) => Math.min(bytes, max));

afterEach(() => {
  jest.restoreAllMocks();
});

describe('the configuration', () => {
  it('needs the two queues, and has the default of the catalogue for everything else', () => {
    const defaults = Object.entries<Setting>(SETTINGS).map(([name, setting]) => [name, setting.default]);
    expect(loadConfig({ ...QUEUES, AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769' })).toEqual({
      ...Object.fromEntries(defaults),
      maxAnswerCharacters: 28_983_296,
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

  it('reads every kind of variable', () => {
    const config = loadConfig({
      ...QUEUES,
      BATCHSCORE_DEFAULT_MODEL: 'digits',
      BATCHSCORE_PRELOAD: 'false',
      BATCHSCORE_PROVIDERS: 'cuda, cpu',
      BATCHSCORE_LOG_LEVEL: 'debug',
      BATCHSCORE_WINDOW_SECONDS: '0.5',
      BATCHSCORE_MAX_BATCH_ROWS: '64',
      BATCHSCORE_RESULTS: 'table, queue,bucket',
      BATCHSCORE_RESULTS_PER_MESSAGE: '10000',
      BATCHSCORE_RESULT_TABLE: 'results-table',
      BATCHSCORE_RESULT_BUCKET: 'results-bucket',
      BATCHSCORE_RESULT_PREFIX: 'lake/fraud/',
    });
    expect(config).toMatchObject({
      defaultModel: 'digits',
      preload: false,
      providers: ['cuda', 'cpu'],
      logLevel: 'debug',
      windowSeconds: 0.5,
      maxBatchRows: 64,
      results: ['table', 'queue', 'bucket'],
      resultsPerMessage: 10_000,
      resultTable: 'results-table',
      resultPrefix: 'lake/fraud/',
    });
  });

  it('leaves the variables of others alone', () => {
    expect(loadConfig({ ...QUEUES, PATH: '/bin', AWS_REGION: 'eu-central-1', MAX_BATCH_ROWS: 'x' }).maxBatchRows).toBe(
      512,
    );
  });

  it('takes models from S3, and then from no folder', () => {
    const uri = `s3://bucket/models/${'0'.repeat(64)}`;
    expect(loadConfig({ ...QUEUES, BATCHSCORE_MODELS_URI: uri }).modelsUri).toBe(uri);
    expect(refusalOf({ ...QUEUES, BATCHSCORE_MODELS_URI: uri, BATCHSCORE_MODELS_DIR: 'models' })).toBe(
      'configuration: BATCHSCORE_MODELS_URI: expected it or BATCHSCORE_MODELS_DIR, got both; unset one of them',
    );
  });

  it.each([
    ['table', 'BATCHSCORE_RESULT_TABLE'],
    ['bucket', 'BATCHSCORE_RESULT_BUCKET'],
  ])('is refused when results go to the %s and %s is not set', (store, key) => {
    expect(refusalOf({ ...QUEUES, BATCHSCORE_RESULTS: `queue,${store}` })).toMatch(
      new RegExp(`^configuration: ${key}: .*${store}.*, got nothing; set it$`),
    );
  });

  it.each(['10000', '2'])('is refused when results share messages by %s and none go to a queue', (value) => {
    const { BATCHSCORE_REQUEST_QUEUE_URL } = QUEUES;
    const table = { BATCHSCORE_RESULTS: 'table', BATCHSCORE_RESULT_TABLE: 't', BATCHSCORE_RESULTS_PER_MESSAGE: value };
    expect(refusalOf({ BATCHSCORE_REQUEST_QUEUE_URL, ...table })).toBe(
      'configuration: BATCHSCORE_RESULTS_PER_MESSAGE: expected 1, because no results go to a queue, ' +
        `got "${value}"; unset it`,
    );
  });

  it('is refused when results of a standard queue are to share messages of a FIFO queue', () => {
    const fifo = (key: keyof typeof QUEUES) => ({ [key]: `${QUEUES[key]}.fifo` });
    const packed = { ...QUEUES, BATCHSCORE_RESULTS_PER_MESSAGE: '10000' };
    expect(refusalOf({ ...packed, ...fifo('BATCHSCORE_RESULT_QUEUE_URL') })).toBe(
      'configuration: BATCHSCORE_RESULTS_PER_MESSAGE: expected 1, because results of a standard request queue have no ' +
        'message group to share on a FIFO result queue, got "10000"; unset it, or use queues of one kind',
    );
    const both = { ...fifo('BATCHSCORE_RESULT_QUEUE_URL'), ...fifo('BATCHSCORE_REQUEST_QUEUE_URL') };
    expect(loadConfig({ ...packed, ...both }).resultsPerMessage).toBe(10_000);
  });

  it('is refused when request queues are of two kinds', () => {
    const { BATCHSCORE_REQUEST_QUEUE_URL: url } = QUEUES;
    expect(refusalOf({ ...QUEUES, BATCHSCORE_REQUEST_QUEUE_URL: `${url},${url}.fifo` })).toBe(
      'configuration: BATCHSCORE_REQUEST_QUEUE_URL: expected queues of one kind, FIFO or standard, ' +
        `got "${url},${url}.fifo"; give each kind a deployment of its own`,
    );
    const shards = `${url}.fifo,${url}2.fifo`;
    expect(loadConfig({ ...QUEUES, BATCHSCORE_REQUEST_QUEUE_URL: shards }).requestQueueUrls).toHaveLength(2);
  });

  it('is refused when the urgent queue is the request queue, or of another kind', () => {
    const { BATCHSCORE_REQUEST_QUEUE_URL: url } = QUEUES;
    expect(refusalOf({ ...QUEUES, BATCHSCORE_URGENT_QUEUE_URL: url })).toBe(
      `configuration: BATCHSCORE_URGENT_QUEUE_URL: expected another queue than the request queue, got "${url}"; give each its own`,
    );
    expect(refusalOf({ ...QUEUES, BATCHSCORE_URGENT_QUEUE_URL: `${url}.fifo` })).toContain(
      'BATCHSCORE_REQUEST_QUEUE_URL: expected queues of one kind, FIFO or standard',
    );
    expect(refusalOf({ ...QUEUES, BATCHSCORE_URGENT_QUEUE_URL: QUEUES.BATCHSCORE_RESULT_QUEUE_URL })).toContain(
      'BATCHSCORE_RESULT_QUEUE_URL: expected another queue than the requests',
    );
  });

  it('is refused when results go to a request queue', () => {
    const { BATCHSCORE_REQUEST_QUEUE_URL: url } = QUEUES;
    expect(refusalOf({ BATCHSCORE_REQUEST_QUEUE_URL: `https://a/b,${url}`, BATCHSCORE_RESULT_QUEUE_URL: url })).toBe(
      `configuration: BATCHSCORE_RESULT_QUEUE_URL: expected another queue than the requests', got "${url}"; give each its own`,
    );
  });

  it('is refused when a client is to read a request queue, or a queue of another kind', () => {
    const { BATCHSCORE_REQUEST_QUEUE_URL: url } = QUEUES;
    for (const wrong of [url, 'https://a/results.fifo']) {
      expect(refusalOf({ ...QUEUES, BATCHSCORE_CLIENT_QUEUE_URLS: `https://a/web,${wrong}` })).toBe(
        'configuration: BATCHSCORE_CLIENT_QUEUE_URLS: expected queues of the kind of the result queue, none of them a ' +
          `request queue, got "https://a/web,${wrong}"; give each client a queue of its own`,
      );
    }
  });

  it('needs no result queue when no results go there', () => {
    const { BATCHSCORE_REQUEST_QUEUE_URL } = QUEUES;
    const environment = { BATCHSCORE_REQUEST_QUEUE_URL, BATCHSCORE_RESULTS: 'table', BATCHSCORE_RESULT_TABLE: 't' };

    expect(loadConfig(environment)).toMatchObject({ results: ['table'], resultTable: 't' });
  });

  it.each([
    ['BATCHSCORE_MAX_BATCH_ROW', 'did you mean BATCHSCORE_MAX_BATCH_ROWS, a whole number from 1 to 65536?'],
    ['BATCHSCORE_COLOUR', 'docs/configuration.md lists them'],
  ])('is refused for %s, which it does not know, with the nearest that it knows and its range', (key, hint) => {
    expect(refusalOf({ ...QUEUES, [key]: '64' })).toBe(
      `configuration: ${key}: expected a variable of batchscore, got an unknown one; ${hint}`,
    );
  });
});
