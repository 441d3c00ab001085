import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../lambda/core/contract/model.ts';
import { createHandler } from '../../lambda/createHandler.ts';
import { inMemoryModel, lineModel, repositoryOf } from '../helpers/models.ts';
import { lineRequest } from '../helpers/records.ts';
import { sqsRecord } from '../helpers/sqsEvents.ts';
import { useSqsServer } from '../helpers/sqsServer.ts';
import { composed, invoke, recordingTelemetry } from './setup.ts';

const sqs = useSqsServer();
/** A tenth of a second a row, invocations of eight: in tenths of that. */
const ROW_MS = 10;
const TIMEOUT_MS = 800;
const MARGIN_MS = 100;

/** A model of which each row takes its time, and one run after the other. */
function slowModel(measured: Model['measured']): Model {
  let before: Promise<unknown> = Promise.resolve();
  const line = lineModel();
  return {
    ...inMemoryModel(line, () => []),
    measured,
    run(inputs) {
      const rows = inputs[0]?.shape[0] ?? 0;
      const own = before.then(() => sleep(rows * ROW_MS)).then(() => line.run(inputs));
      before = own.catch(() => {});
      return own.then(({ outputs }) => ({ outputs, runMs: rows * ROW_MS }));
    },
  };
}

describe('a model whose rows are slow', () => {
  it.each([
    ['warmed up', [{ rows: 1, length: 1, ms: ROW_MS }]],
    ['not warmed up', []],
  ])('answers 120 records in two invocations that have time for 70 each: %s', async (_, measured) => {
    const deployment = { sqs: sqs.client(), requestQueueUrl: sqs.queue(), resultQueueUrl: sqs.queue() };
    const variables = { BATCHSCORE_DEADLINE_MARGIN_MS: String(MARGIN_MS) };
    const composition = await composed(deployment, recordingTelemetry(), { variables });
    const scoring = { ...composition.scoring, models: repositoryOf(slowModel(measured)) };
    const handler = createHandler({ ...composition, scoring });
    let records = Array.from({ length: 120 }, (__, index) => sqsRecord(lineRequest([index])));

    for (const most of [120 - 56, 0]) {
      const { batchItemFailures } = await invoke(handler, records, TIMEOUT_MS);
      const failed = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
      expect(failed.size).toBeLessThanOrEqual(most);
      records = records.filter(({ messageId }) => failed.has(messageId));
    }
    expect(await sqs.drain(deployment.resultQueueUrl)).toHaveLength(120);
  });
});
