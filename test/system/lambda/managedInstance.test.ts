import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { failuresOf, lookupRequest, recordOfMessage } from '../../helpers/handler.ts';
import { startHandler } from '../../helpers/hosts.ts';
import { lookupModel, turningModel } from '../../helpers/onnxModels.ts';
import { modelsDirectory } from '../../helpers/openModels.ts';

const server = useSqsServer();
const TIMEOUT_MS = 4_000;

const HANGING = {
  model_name: 'turns',
  inputs: [{ name: 'turns', datatype: 'INT64', shape: [1], data: [4e12] }],
};

/** `AWS_LAMBDA_NODEJS_WORKER_COUNT` is 1 on Managed Instances: one thread has the handler, and the process is not its own. */
describe('4. A run starts only if it is expected to finish', () => {
  it('the handler in a worker thread hands back a run that does not end in too short a time, and goes on', async () => {
    const [requestQueueUrl, resultQueueUrl] = [server.queue(), server.queue()];
    const variables = {
      ORT_DISABLE_TELEMETRY: '1',
      AWS_ENDPOINT_URL_SQS: new URL(requestQueueUrl).origin,
      BATCHSCORE_MODELS_DIR: await modelsDirectory({
        'lookup/1/model.onnx': lookupModel(),
        'turns/1/model.onnx': turningModel(),
      }),
      BATCHSCORE_DEFAULT_MODEL: 'turns',
      BATCHSCORE_DEADLINE_MARGIN_MS: '500',
      BATCHSCORE_REQUEST_QUEUE_URL: requestQueueUrl,
      BATCHSCORE_RESULT_QUEUE_URL: resultQueueUrl,
    };
    const receive = async (request: object) => {
      server.send(requestQueueUrl, [JSON.stringify(request)]);
      return (await server.receive(requestQueueUrl)).map((one) => recordOfMessage(one, requestQueueUrl));
    };
    const host = await startHandler(variables, { inThread: true });

    const hanging = await receive(HANGING);
    expect(await host.invoke(hanging, undefined, TIMEOUT_MS)).toEqual(failuresOf(...hanging));

    const [next] = await receive({ ...lookupRequest(2), model_name: 'lookup' });
    expect(await host.invoke(next === undefined ? [] : [next], undefined, TIMEOUT_MS)).toEqual(failuresOf());
    // A second one, in which the request runs alone, if it starts in time.
    expect(await host.end()).toMatch(/"ScorersLost":(1|\[1,1\])/);

    const results = (await server.drain(resultQueueUrl)).map(({ Body = '' }) => JSON.parse(Body));
    expect(results).toMatchObject([{ message_id: next?.messageId, outputs: [{ data: [30] }] }]);
  });
});
