import type { Message } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { unpackResults } from '../../../client/readResult.ts';
import { createHandler } from '../../../lambda/hosts/createHandler.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { composed, digitRequest, digitSamples, invoke, recordingTelemetry, sqsRecord } from '../../helpers/handler.ts';

const server = useSqsServer();

async function packingHandler(resultsPerMessage: string) {
  const [requestQueueUrl, resultQueueUrl] = [server.queue(), server.queue()];
  const variables = { BATCHSCORE_RESULTS_PER_MESSAGE: resultsPerMessage };
  const where = { sqs: server.client(), requestQueueUrl, resultQueueUrl };
  return { handler: createHandler(await composed(where, recordingTelemetry(), { variables })), resultQueueUrl };
}

function documentsIn({ Body = '', MessageAttributes: { messageId, results } = {} }: Message): [string, unknown][] {
  if (results === undefined) return [[messageId?.StringValue ?? '', JSON.parse(Body)]];
  const read = unpackResults(Body, results.StringValue ?? '');
  if ('problem' in read) throw new Error(read.problem);
  return read.map((result) => [result.messageId, result.document]);
}

describe('five hundred results that share messages', () => {
  it('take few messages, and hold what they would alone', async () => {
    const samples = await digitSamples(500);
    const records = samples.map((sample, index) => sqsRecord(index % 50 === 7 ? 'no JSON' : digitRequest(sample)));
    const [packed, single] = [await packingHandler('10000'), await packingHandler('1')];

    expect(await invoke(packed.handler, records)).toEqual({ batchItemFailures: [] });
    expect(await invoke(single.handler, records)).toEqual({ batchItemFailures: [] });

    const messages = await server.drain(packed.resultQueueUrl);
    expect(messages.length).toBeLessThanOrEqual(6);
    const alone = (await server.drain(single.resultQueueUrl)).flatMap(documentsIn);
    expect(alone).toHaveLength(500);
    expect(new Map(messages.flatMap(documentsIn))).toEqual(new Map(alone));
  });
});
