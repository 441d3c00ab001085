import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { lookupRequest, sqsRecord } from '../../helpers/handler.ts';
import { startHandler } from '../../helpers/hosts.ts';
import { lookupModel, reshapeModel } from '../../helpers/onnxModels.ts';
import { modelsDirectory, type RepositoryFiles } from '../../helpers/openModels.ts';

const server = useSqsServer();
const SECRET = 'only-the-producer-knows-this';
const WARNING = 'this transform is old';
const TRANSFORM = `process.emitWarning(${JSON.stringify(WARNING)}); export const encode = (outputs) => outputs;`;

type Line = Readonly<Record<string, unknown>>;

/** The function with these models, and where its results come. */
async function deployed(models: RepositoryFiles, variables: Readonly<Record<string, string>> = {}) {
  const [requestQueueUrl, resultQueueUrl] = [server.queue(), server.queue()];
  const entry = await startHandler({
    AWS_ENDPOINT_URL_SQS: new URL(requestQueueUrl).origin,
    BATCHSCORE_MODELS_DIR: await modelsDirectory(models),
    BATCHSCORE_REQUEST_QUEUE_URL: requestQueueUrl,
    BATCHSCORE_RESULT_QUEUE_URL: resultQueueUrl,
    ...variables,
  });
  return { entry, resultQueueUrl };
}

/** Every line that the function prints from its start on while it scores three requests, two of them together. */
async function logOf(variables: Readonly<Record<string, string>>): Promise<Line[]> {
  const models = {
    'lookup/1/model.onnx': lookupModel(),
    'lookup/config.json': { maxBatchRows: 4, transform: 'transform.mjs' },
    'lookup/transform.mjs': TRANSFORM,
  };
  const { entry } = await deployed(models, variables);
  await entry.invoke([sqsRecord({ ...lookupRequest(0), id: SECRET }), sqsRecord(lookupRequest(1)), sqsRecord(SECRET)]);
  return (await entry.end())
    .trimEnd()
    .split('\n')
    .map((line): Line => JSON.parse(line));
}

function saying(lines: readonly Line[], message: string): Line[] {
  return lines.filter((line) => line.message === message);
}

describe('the log of the function', () => {
  it('has at the level debug a line for each micro-batch and each stage beside it', async () => {
    const lines = await logOf({ BATCHSCORE_LOG_LEVEL: 'debug' });

    const ms = expect.any(Number);
    expect(saying(lines, 'micro-batch')).toMatchObject([
      {
        level: 'DEBUG',
        model: 'lookup',
        version: '1',
        requests: 2,
        rows: 2,
        fill: 50,
        paddedRows: 2,
        paddingShare: 0,
        closedBecause: 'end',
        stackMs: ms,
        runMs: ms,
        encodeMs: ms,
        function_request_id: expect.any(String),
      },
    ]);
    expect(saying(lines, 'records decoded')).toMatchObject([{ decodeMs: ms }]);
    expect(saying(lines, 'results written')).not.toHaveLength(0);
    expect(JSON.stringify(lines)).not.toContain(SECRET);
  });

  it('has none of these lines unless it is told to, and warnings of Node and of packages as JSON', async () => {
    const lines = await logOf({});

    expect(lines.filter(({ level }) => level === 'DEBUG')).toEqual([]);
    expect(saying(lines, 'records scored')).toMatchObject([{ records: 3, answered: 3, errors: 1 }]);
    expect(saying(lines, 'a warning of Node')).toMatchObject([{ level: 'WARN', name: 'Warning', reason: WARNING }]);
  });

  it('has them too where the function has that level by its logging configuration', async () => {
    const lines = await logOf({ AWS_LAMBDA_LOG_LEVEL: 'DEBUG' });

    expect(saying(lines, 'micro-batch')).not.toHaveLength(0);
  });

  it('has nothing but errors at the level error, and its metrics', async () => {
    const lines = await logOf({ BATCHSCORE_LOG_LEVEL: 'error' });

    expect(lines).toMatchObject([{ _aws: expect.anything(), Answered: 3 }]);
  });

  it('says as JSON why the function cannot start, and in one sentence that names every variable that is wrong', async () => {
    const wrong = { BATCHSCORE_MAX_BATCH_ROWS: '0', BATCHSCORE_COLOUR: 'red' };
    const failed = await startHandler({ BATCHSCORE_SERVICE_NAME: 'mine', ...wrong }).then(
      () => '',
      (error: Error) => error.message,
    );

    const lines = failed.split('\n');
    const sentences = lines.filter((line) => line.startsWith('Error: configuration: '));
    expect(sentences).toHaveLength(1);
    for (const name of [...Object.keys(wrong), 'BATCHSCORE_REQUEST_QUEUE_URL', 'BATCHSCORE_RESULT_QUEUE_URL']) {
      expect(sentences[0]).toContain(`${name}: `);
    }
    expect(JSON.parse(lines.find((line) => line.startsWith('{')) ?? '')).toMatchObject({
      level: 'CRITICAL',
      service: 'mine',
      message: 'the function cannot start',
      error: { message: expect.stringContaining('BATCHSCORE_REQUEST_QUEUE_URL: ') },
    });
  });

  it('has nothing of requests whose runs fail', async () => {
    const { entry, resultQueueUrl } = await deployed({
      'lookup/1/model.onnx': lookupModel(),
      'reshape/1/model.onnx': reshapeModel(),
      'reshape/config.json': { warmup: false },
    });
    const inputs = [
      { name: 'x', datatype: 'FP32', shape: [1, 3], data: [1, 2, 3] },
      { name: 'size', datatype: 'INT64', shape: [1], data: [987_654_321] },
    ];

    await entry.invoke([sqsRecord(lookupRequest(987_654_321)), sqsRecord({ model_name: 'reshape', inputs })]);

    const failed = expect.stringMatching(/"RUN_FAILED".*987654321/);
    expect((await server.drain(resultQueueUrl)).map(({ Body }) => Body)).toEqual([failed, failed]);
    expect(await entry.end()).not.toContain('987654321');
  });
});
