import { describe, expect, it } from '@jest/globals';
import { emptyFolder, publish, useS3Server, useSqsServer } from '../../helpers/awsServers.ts';
import { startDev } from '../../helpers/command.ts';
import { lookupRequest, sqsRecord } from '../../helpers/handler.ts';
import { startHandler } from '../../helpers/hosts.ts';
import { lookupModel } from '../../helpers/onnxModels.ts';

const sqs = useSqsServer();
const s3 = useS3Server();
const TRANSFORM = 'export const encode = ({ value }) => ({ value: Number(value.data[0]) });';

/** All that the function is told. Its folder for temporary files is the test's own. */
async function deployed(files: Readonly<Record<string, Uint8Array>>) {
  const [requestQueueUrl, resultQueueUrl] = [sqs.queue(), sqs.queue()];
  const variables = {
    TMPDIR: await emptyFolder(),
    AWS_ENDPOINT_URL_SQS: new URL(requestQueueUrl).origin,
    AWS_ENDPOINT_URL_S3: s3.endpoint(),
    BATCHSCORE_MODELS_URI: (await publish(s3, files)).uri,
    BATCHSCORE_REQUEST_QUEUE_URL: requestQueueUrl,
    BATCHSCORE_RESULT_QUEUE_URL: resultQueueUrl,
  };
  return { resultQueueUrl, variables };
}

describe('the Lambda entry with models in S3', () => {
  it('scores with what it fetched, transforms included', async () => {
    const { resultQueueUrl, variables } = await deployed({
      'lookup/1/model.onnx': lookupModel(),
      'lookup/config.json': Buffer.from('{"transform":"transform.js"}'),
      'lookup/transform.js': Buffer.from(TRANSFORM),
    });
    const entry = await startHandler(variables);

    expect(await entry.invoke([sqsRecord(lookupRequest(1))])).toEqual({ batchItemFailures: [] });

    const results = (await sqs.drain(resultQueueUrl)).map(({ Body = '' }) => JSON.parse(Body));
    expect(results).toEqual([expect.objectContaining({ model_name: 'lookup', result: { value: 20 } })]);
    expect(await entry.end()).toMatch(/fetched in/);
  });

  it('fails at its import when it cannot fetch them, and says why', async () => {
    const { variables } = await deployed({ 'lookup/1/model.onnx': lookupModel() });
    const gone = { ...variables, BATCHSCORE_MODELS_URI: variables.BATCHSCORE_MODELS_URI.replace('team', 'other') };

    await expect(startHandler(gone)).rejects.toThrow(
      /Error: s3:\/\/.*\/other\/models\/.*\/manifest\.json: expected what batchscore publish puts there, got nothing; /,
    );
  });
});

describe('npm run dev', () => {
  it('fetches models whose URI it is given', async () => {
    const { variables } = await deployed({ 'lookup/1/model.onnx': lookupModel() });
    const { TMPDIR, AWS_ENDPOINT_URL_S3, BATCHSCORE_MODELS_URI: uri } = variables;
    const credentials = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' };

    const dev = await startDev(['--models', uri], { env: { TMPDIR, AWS_ENDPOINT_URL_S3, ...credentials } });

    await dev.says(/^ready for lookup\/1/);
    expect(await dev.interrupt()).toBe(0);
  });
});
