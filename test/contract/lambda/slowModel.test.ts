import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../lambda/core/model.ts';
import { createHandler } from '../../../lambda/hosts/createHandler.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { composed, lambdaContext, recordingTelemetry, sqsEvent, sqsRecord } from '../../helpers/handler.ts';
import { lineModel, lineRequest, repositoryOf } from '../../helpers/scoring.ts';

const sqs = useSqsServer();
const ROW_MS = 100;
const TIMEOUT_MS = 8_000;
/** By default a second is kept for writes: there is time for 70 rows. */
const ROWS_IN_TIME = 70;

/** A model whose rows take their time, on a clock that it moves itself. */
function slowModel(measured: Model['measured']) {
  const line = lineModel();
  const clock = { nowMs: 0 };
  const model: Model = {
    ...line,
    measured,
    async run(inputs) {
      const runMs = ROW_MS * (inputs[0]?.shape[0] ?? 0);
      clock.nowMs += runMs;
      return { ...(await line.run(inputs)), runMs };
    },
  };
  return { model, clock };
}

describe('a model whose rows take a tenth of a second', () => {
  it.each([
    ['warmed up', [{ rows: 1, length: 1, ms: ROW_MS }]],
    ['not warmed up', []],
  ])('answers 120 records in two invocations of eight seconds, and overruns neither: %s', async (_, measured) => {
    const deployment = { sqs: sqs.client(), requestQueueUrl: sqs.queue(), resultQueueUrl: sqs.queue() };
    const composition = await composed(deployment, recordingTelemetry());
    const { model, clock } = slowModel(measured);
    const scoring = { ...composition.scoring, models: repositoryOf(model), now: () => clock.nowMs };
    const handler = createHandler({ ...composition, scoring });
    let records = Array.from({ length: 120 }, (__, index) => sqsRecord(lineRequest([index])));

    const answered: number[] = [];
    while (records.length > 0 && answered.length < 2) {
      const deadlineMs = clock.nowMs + TIMEOUT_MS;
      const context = { ...lambdaContext(), getRemainingTimeInMillis: () => deadlineMs - clock.nowMs };
      const { batchItemFailures } = await handler(sqsEvent(records), context);
      expect(clock.nowMs).toBeLessThan(deadlineMs);
      const failed = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
      answered.push(records.length - failed.size);
      records = records.filter(({ messageId }) => failed.has(messageId));
    }

    expect(answered[0]).toBeGreaterThanOrEqual(0.8 * ROWS_IN_TIME);
    expect(records).toEqual([]);
    expect(await sqs.drain(deployment.resultQueueUrl)).toHaveLength(120);
  });
});
