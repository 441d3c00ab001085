import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { createPowertoolsTelemetry } from '../../../lambda/aws/powertools.ts';
import { isFailure } from '../../../lambda/core/failure.ts';
import type { Independence, Model, ModelRepository } from '../../../lambda/core/model.ts';

import type { Composition } from '../../../lambda/hosts/compose.ts';
import { createHandler } from '../../../lambda/hosts/createHandler.ts';
import { composed, invoke } from '../../helpers/handler.ts';
import { shareOfLargestModel } from '../../helpers/onnxModels.ts';
import { sqsRecord } from '../../helpers/sqsEvents.ts';
import { useSqsServer } from '../../helpers/sqsServer.ts';

const server = useSqsServer();

afterEach(() => {
  jest.restoreAllMocks();
});

/** The models as if what was found out about them when they were loaded were something else. */
function taken(models: ModelRepository, independence: Independence): ModelRepository {
  const known = new Map<Model, Model>();
  return {
    async find(name, version) {
      const model = await models.find(name, version);
      if (isFailure(model)) return model;
      const other = known.get(model) ?? { ...model, independence, maxBatchRows: 512 };
      known.set(model, other);
      return other;
    },
  };
}

async function deployedWith(independence: Independence, variables: Readonly<Record<string, string>> = {}) {
  const printed: string[] = [];
  for (const stream of [process.stdout, process.stderr]) {
    jest.spyOn(stream, 'write').mockImplementation((chunk) => printed.push(String(chunk)) > 0);
  }
  const queues = { sqs: server.client(), requestQueueUrl: server.queue(), resultQueueUrl: server.queue() };
  const models = { 'share/1/model.onnx': shareOfLargestModel(), 'share/config.json': { warmup: false } };
  const telemetry = createPowertoolsTelemetry({ serviceName: 'batchscore' });
  const composition: Composition = await composed(queues, telemetry, { models, variables });
  const { scoring } = composition;
  const handler = createHandler({
    ...composition,
    scoring: { ...scoring, models: taken(scoring.models, independence) },
  });
  return {
    async score(count: number) {
      const records = Array.from({ length: count }, (_, index) =>
        sqsRecord({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [index + 1] }] }),
      );
      const response = await invoke(handler, records);
      expect(response.batchItemFailures).toEqual([]);
      const messages = await server.drain(queues.resultQueueUrl);
      return {
        messageIds: records.map(({ messageId }) => messageId),
        shares: messages.map(({ Body = '' }): number => JSON.parse(Body).outputs[0].data[0]),
      };
    },
    lines: (text: string) =>
      printed
        .join('')
        .split('\n')
        .filter((line) => line.includes(text))
        .map((line): Record<string, unknown> => JSON.parse(line)),
  };
}

describe('a model that was taken for one with independent rows, and is not', () => {
  it('writes what each row gets alone, logs one message and counts it; batches never again', async () => {
    const { score, lines } = await deployedWith('proved');
    const { shares, messageIds } = await score(30);
    expect(shares).toEqual(new Array(30).fill(1));
    expect((await score(20)).shares).toEqual(new Array(20).fill(1));
    const told = lines('not batched any more');
    expect(told).toMatchObject([{ level: 'ERROR', model: 'share', version: '1', output: 'share' }]);
    expect(messageIds).toContain(told[0]?.messageId);
    expect(lines('"_aws"')).toMatchObject([{ BatchMismatch: 1, Answered: 30 }, { Answered: 20 }]);
    expect(lines('"_aws"')[1]).not.toHaveProperty('BatchMismatch');
  });

  it('is not found out with checks turned off', async () => {
    const { score, lines } = await deployedWith('proved', { BATCHSCORE_CHECK_PERCENT: '0' });
    expect(Math.min(...(await score(30)).shares)).toBeLessThan(1);
    expect(lines('"_aws"')[0]).not.toHaveProperty('CheckTime');
  });
});

describe('a model of which nothing is known', () => {
  it('writes what each row gets alone', async () => {
    const { score, lines } = await deployedWith('unproven');
    expect((await score(30)).shares).toEqual(new Array(30).fill(1));
    expect(lines('stays unbatched')).toMatchObject([{ level: 'WARN', model: 'share', output: 'share' }]);
  });
});
