import { describe, expect, it } from '@jest/globals';
import type { Patience } from '../../../lambda/aws/awsClients.ts';
import { createHandler } from '../../../lambda/hosts/createHandler.ts';
import { silentTo } from '../../helpers/frontServer.ts';
import { composed, digitRequest, digitSamples, invoke, recordingTelemetry } from '../../helpers/handler.ts';
import { sqsRecord } from '../../helpers/sqsEvents.ts';
import { useSqsServer } from '../../helpers/sqsServer.ts';

const server = useSqsServer();
const RECORDS = 500;
/** Enough for what is answered, on a busy machine too; six attempts and their pauses end long before the deadline. */
const IMPATIENT: Patience = { connectMs: 800, answerMs: 800 };

async function handlerBehindSilence(times: number) {
  const samples = await digitSamples(RECORDS);
  const records = samples.map((sample) => sqsRecord(digitRequest(sample)));
  const front = await server.front(...silentTo(records[77]?.messageId ?? '', times));
  const resultQueueUrl = server.queue();
  const telemetry = recordingTelemetry();
  const sqs = server.client(front, IMPATIENT);
  const composition = await composed({ sqs, requestQueueUrl: server.queue(), resultQueueUrl }, telemetry);
  return { records, resultQueueUrl, handler: createHandler(composition), telemetry };
}

/** The message IDs that have a result; a slow answer may leave two of one. */
async function idsOn(queueUrl: string): Promise<unknown[]> {
  const results = await server.drain(queueUrl);
  return [...new Set(results.map(({ MessageAttributes }) => MessageAttributes?.messageId?.StringValue))];
}

describe('five hundred results, one batch request of which is not answered', () => {
  it('are all acknowledged when it is answered at the second attempt', async () => {
    const { records, resultQueueUrl, handler } = await handlerBehindSilence(1);

    expect(await invoke(handler, records)).toEqual({ batchItemFailures: [] });

    expect(await idsOn(resultQueueUrl)).toHaveLength(RECORDS);
  });

  it('are acknowledged but for its ten when it never is, and the reason is told', async () => {
    const { records, resultQueueUrl, handler, telemetry } = await handlerBehindSilence(100);

    const { batchItemFailures } = await invoke(handler, records);

    expect(batchItemFailures).toHaveLength(10);
    expect(batchItemFailures).toContainEqual({ itemIdentifier: records[77]?.messageId });
    expect(await idsOn(resultQueueUrl)).toHaveLength(RECORDS - 10);
    const retried = telemetry.outcomesOfInvocations[0]?.filter(({ status }) => status === 'retry');
    expect(retried).toEqual(
      Array(10).fill({
        status: 'retry',
        failure: expect.objectContaining({ message: expect.stringMatching(/^result queue: TimeoutError/) }),
      }),
    );
  }, 20_000);
});
