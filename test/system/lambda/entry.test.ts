import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { lookupRequest, sqsRecord } from '../../helpers/handler.ts';
import { startHandler } from '../../helpers/hosts.ts';
import { lookupModel, reshapeModel } from '../../helpers/onnxModels.ts';
import { modelsDirectory } from '../../helpers/openModels.ts';

const server = useSqsServer();

interface Deployed {
  readonly requestQueueUrl: string;
  readonly resultQueueUrl: string;
  /** All that the function is told. */
  readonly variables: Readonly<Record<string, string>>;
}

async function deployed(models: Parameters<typeof modelsDirectory>[0]): Promise<Deployed> {
  const [requestQueueUrl, resultQueueUrl] = [server.queue(), server.queue()];
  const variables = {
    AWS_ENDPOINT_URL_SQS: new URL(requestQueueUrl).origin,
    BATCHSCORE_MODELS_DIR: await modelsDirectory(models),
    BATCHSCORE_REQUEST_QUEUE_URL: requestQueueUrl,
    BATCHSCORE_RESULT_QUEUE_URL: resultQueueUrl,
  };
  return { requestQueueUrl, resultQueueUrl, variables };
}

/** What the process prints whose import of the entry fails. */
async function refusalOf(variables: Readonly<Record<string, string>>): Promise<string> {
  const starting = startHandler(variables).then(() => 'the entry was imported');
  return await starting.catch((error: Error) => error.message);
}

describe('the Lambda entry', () => {
  it('fails at its import, with one sentence that names every variable that is wrong', async () => {
    const wrong = { BATCHSCORE_MAX_BATCH_ROWS: '0', BATCHSCORE_COLOUR: 'red' };

    const printed = await refusalOf(wrong);

    const sentences = printed.split('\n').filter((line) => line.startsWith('Error: configuration: '));
    expect(sentences).toHaveLength(1);
    for (const name of [...Object.keys(wrong), 'BATCHSCORE_REQUEST_QUEUE_URL', 'BATCHSCORE_RESULT_QUEUE_URL']) {
      expect(sentences[0]).toContain(`${name}: `);
    }
  });

  it('fails at its import when a model is broken, naming it', async () => {
    const { variables } = await deployed({ 'lookup/1/model.onnx': 'no model' });

    expect(await refusalOf(variables)).toMatch(/Error: .*lookup/);
  });

  it('prints nothing of requests whose runs fail', async () => {
    const { resultQueueUrl, variables } = await deployed({
      'lookup/1/model.onnx': lookupModel(),
      'reshape/1/model.onnx': reshapeModel(),
      'reshape/config.json': { warmup: false },
    });
    const entry = await startHandler(variables);
    const reshapeInputs = [
      { name: 'x', datatype: 'FP32', shape: [1, 3], data: [1, 2, 3] },
      { name: 'size', datatype: 'INT64', shape: [1], data: [987_654_321] },
    ];

    await entry.invoke([
      sqsRecord(lookupRequest(987_654_321)),
      sqsRecord({ model_name: 'reshape', inputs: reshapeInputs }),
    ]);

    const results = (await server.drain(resultQueueUrl)).map(({ Body }) => Body);
    expect(results).toEqual([
      expect.stringMatching(/"RUN_FAILED".*987654321/),
      expect.stringMatching(/"RUN_FAILED".*987654321/),
    ]);
    expect(await entry.end()).not.toContain('987654321');
  });
});
