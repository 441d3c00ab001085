import { ChangeMessageVisibilityBatchCommand } from '@aws-sdk/client-sqs';
import { afterEach, describe, expect, it } from '@jest/globals';
import type { SqsCaller } from '../../../lambda/aws/sqsMessages.ts';
import type { ScoreBodies } from '../../../lambda/core/score.ts';
import { startWorker, type Worker, type WorkerSettings } from '../../../lambda/hosts/consumer.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { composed, recordingTelemetry } from '../../helpers/handler.ts';
import { LOOKUP, lookup, until } from '../../helpers/hosts.ts';
import { closedGate } from '../../helpers/manualClock.ts';

const server = useSqsServer();
const MESSAGES = 12;

let worker: Worker | undefined;
afterEach(() => worker?.drain());

function settingsFor(queueUrl: string): WorkerSettings {
  return {
    queueUrls: [queueUrl],
    batchSize: 1,
    windowMs: 0,
    depth: 2,
    maxPolls: 4,
    waitSeconds: 1,
    visibilitySeconds: 60,
    timeoutMs: 60_000,
    drainMs: 1_000,
    endMs: 2_000,
  };
}

describe('a worker', () => {
  it.each([
    [1, 2],
    [3, 6],
  ])(
    'whose model is on %d devices scores %d batches at the same time, with a depth of 2',
    async (devices, expected) => {
      const sqs = server.client();
      const [requestQueueUrl, resultQueueUrl] = [server.queue(), server.queue()];
      const composition = await composed({ sqs, requestQueueUrl, resultQueueUrl }, recordingTelemetry(), {
        models: LOOKUP,
      });
      const gate = closedGate();
      let waiting = 0;
      const score: ScoreBodies = async (...call) => {
        waiting += 1;
        await gate.opened;
        await composition.scoring.score(...call);
      };
      const scoring = { ...composition.scoring, score };
      const scorer = { ...composition.scorer, devices };
      server.send(
        requestQueueUrl,
        Array.from({ length: MESSAGES }, (_, index) => lookup(index)),
      );

      worker = startWorker({
        settings: settingsFor(requestQueueUrl),
        composition: { ...composition, scoring, scorer },
        sqs,
        onProblem: () => {},
      });
      await until(() => waiting >= expected && (worker?.leased() ?? 0) > expected);
      const atTheSameTime = waiting;
      gate.open();
      await until(() => server.counts(resultQueueUrl).ready === MESSAGES);

      expect(atTheSameTime).toBe(expected);
    },
  );

  it('lets go of a whole message group on a FIFO queue once one of it may be with others: each has one answer', async () => {
    const sqs = server.client();
    const [requestQueueUrl, resultQueueUrl] = [server.fifoQueue({ VisibilityTimeout: '1' }), server.fifoQueue()];
    const composition = await composed({ sqs, requestQueueUrl, resultQueueUrl }, recordingTelemetry(), {
      models: LOOKUP,
    });
    const bodies = [lookup(0), lookup(1)];
    server.send(requestQueueUrl, bodies, () => 'group');
    const refuses: SqsCaller = {
      // The heartbeat of the first is refused until it is over.
      async send(command: never, ...others: never[]) {
        const { input } = command as { input: { Entries?: { Id: string; ReceiptHandle: string }[] } };
        const { Entries = [] } = input;
        if (!((command as object) instanceof ChangeMessageVisibilityBatchCommand) || isLost)
          return await sqs.send(command, ...others);
        const [first, ...kept] = Entries;
        input.Entries = kept;
        const answer = kept.length === 0 ? {} : await sqs.send(command, ...others);
        return { ...(answer as object), Failed: [{ Id: first?.Id, Code: 'InternalError', SenderFault: false }] };
      },
    } as SqsCaller;
    let isLost = false;
    worker = startWorker({
      settings: { ...settingsFor(requestQueueUrl), batchSize: 100, visibilitySeconds: 1, windowMs: 1_500 },
      composition,
      sqs: refuses,
      onProblem({ message }) {
        if (message.includes('not extended in time')) isLost = true;
      },
    });
    await until(() => isLost);
    await until(() => server.counts(resultQueueUrl).ready === bodies.length && worker?.leased() === 0);

    expect((await server.drain(resultQueueUrl)).map(({ Body = '' }) => JSON.parse(Body).message_id)).toHaveLength(2);
  });
});
