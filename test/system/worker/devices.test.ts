import { ChangeMessageVisibilityBatchCommand, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { afterEach, describe, expect, it } from '@jest/globals';
import type { SqsCaller } from '../../../lambda/aws/sendBatches.ts';
import { isFailure } from '../../../lambda/core/failure.ts';
import type { Model } from '../../../lambda/core/model.ts';
import { startWorker, type Worker, type WorkerSettings } from '../../../lambda/hosts/consumer.ts';
import type { Quarantine } from '../../../lambda/hosts/quarantine.ts';
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
      const { models } = composition.scoring;
      const found = await models.find(undefined, undefined);
      if (isFailure(found)) throw new Error(found.message);
      const gate = closedGate();
      let waiting = 0;
      const held: Model = {
        ...found,
        devices,
        async run(...given) {
          waiting += 1;
          await gate.opened;
          return found.run(...given);
        },
      };
      const scoring = { ...composition.scoring, models: { find: () => held } };
      server.send(
        requestQueueUrl,
        Array.from({ length: MESSAGES }, (_, index) => lookup(index)),
      );

      worker = startWorker({
        settings: settingsFor(requestQueueUrl),
        composition: { ...composition, scoring, devices },
        sqs,
        onProblem: () => {},
        onOutage: () => {},
        onStuck: () => {},
      });
      await until(() => waiting >= expected && (worker?.leased() ?? 0) > expected);
      const atTheSameTime = waiting;
      gate.open();
      await until(() => server.counts(resultQueueUrl).ready === MESSAGES);

      expect(atTheSameTime).toBe(expected);
    },
  );

  it('has what came for the third time, and is scored apart, wait for no others: first-timers wait for it', async () => {
    const sqs = server.client();
    const [requestQueueUrl, resultQueueUrl] = [server.queue(), server.queue()];
    const composition = await composed({ sqs, requestQueueUrl, resultQueueUrl }, recordingTelemetry(), {
      models: LOOKUP,
    });
    server.send(requestQueueUrl, [lookup(0)]);
    const receive = { QueueUrl: requestQueueUrl, VisibilityTimeout: 0, WaitTimeSeconds: 1 };
    for (let times = 0; times < 2; times++) await sqs.send(new ReceiveMessageCommand(receive));
    const scoring = {
      ...composition.scoring,
      // As where there is no memory for another process.
      quarantine: {
        isOpen: () => true,
        isBroken: () => false,
        score: (bodies, _time, _sink, inHost) => inHost([...bodies.keys()]),
      } satisfies Quarantine,
    };
    // These fill a batch.
    server.send(
      requestQueueUrl,
      Array.from({ length: 9 }, (_, index) => lookup(index)),
    );

    worker = startWorker({
      settings: { ...settingsFor(requestQueueUrl), batchSize: 9, windowMs: 3_600_000 },
      composition: { ...composition, scoring },
      sqs,
      onProblem: () => {},
      onOutage: () => {},
      onStuck: () => {},
    });
    await until(() => server.counts(resultQueueUrl).ready === 10);
  });

  it('scores one batch at a time on a FIFO queue while it holds what came for the third time', async () => {
    const sqs = server.client();
    const [requestQueueUrl, resultQueueUrl] = [server.fifoQueue(), server.fifoQueue()];
    const composition = await composed({ sqs, requestQueueUrl, resultQueueUrl }, recordingTelemetry(), {
      models: LOOKUP,
    });
    const [culprit = '', ...innocents] = [0, 1, 2, 3].map(lookup);
    server.send(requestQueueUrl, [culprit], () => 'culprit');
    const receive = { QueueUrl: requestQueueUrl, VisibilityTimeout: 0, WaitTimeSeconds: 1 };
    for (let times = 0; times < 2; times++) await sqs.send(new ReceiveMessageCommand(receive));
    const { models } = composition.scoring;
    const found = await models.find(undefined, undefined);
    if (isFailure(found)) throw new Error(found.message);
    const happened: string[] = [];
    const watched: Model = {
      ...found,
      run(...given) {
        happened.push('run');
        return found.run(...given);
      },
    };
    const scoring = {
      ...composition.scoring,
      models: { find: () => watched },
      quarantine: {
        isOpen: () => true,
        isBroken: () => false,
        async score(bodies, _time, _sink, inHost) {
          server.send(requestQueueUrl, innocents, (index) => `innocent-${index}`);
          await until(() => (worker?.leased() ?? 0) > 1);
          // What another batch would have run by now.
          for (let answer = 0; answer < 5; answer++) await server.receive(server.queue());
          happened.push('scored apart');
          await inHost([...bodies.keys()]);
        },
      } satisfies Quarantine,
    };
    worker = startWorker({
      settings: settingsFor(requestQueueUrl),
      composition: { ...composition, scoring },
      sqs,
      onProblem: () => {},
      onOutage: () => {},
      onStuck: () => {},
    });
    await until(() => server.counts(resultQueueUrl).ready === 4);

    expect(happened).toEqual(['scored apart', 'run', 'run', 'run', 'run']);
  });

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
      onOutage: () => {},
      onStuck: () => {},
    });
    await until(() => isLost);
    await until(() => server.counts(resultQueueUrl).ready === bodies.length && worker?.leased() === 0);

    expect((await server.drain(resultQueueUrl)).map(({ Body = '' }) => JSON.parse(Body).message_id)).toHaveLength(2);
  });
});
