import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../helpers/sqsServer.ts';
import { afterAnother, deployment, lookup, until } from './setup.ts';

const server = useSqsServer();

/** `npm run test:drains` ends workers a hundred times. */
const TIMES = Number(process.env.DRAINS ?? 3);
const MESSAGES = 1_500;
const LATEST_MS = 1_500;
const VISIBILITY_SECONDS = 6;
const HEARTBEAT_SECONDS = VISIBILITY_SECONDS / 3;
const STOP_SECONDS = 8;

/** Spread evenly, the same in each run. */
const MOMENTS = Array.from({ length: TIMES }, (_, index) => {
  const golden = (Math.sqrt(5) - 1) / 2;
  const ms = Math.round(LATEST_MS * ((golden * (index + 1)) % 1));
  return { ms, packed: index % 3 === 2 };
});

/** A worker that has answered some of many messages for so long. */
async function underLoad({ ms, packed }: (typeof MOMENTS)[number]) {
  const deployed = await deployment(server, {
    environment: {
      BATCHSCORE_VISIBILITY_SECONDS: String(VISIBILITY_SECONDS),
      BATCHSCORE_STOP_SECONDS: String(STOP_SECONDS),
      ...(packed ? { BATCHSCORE_RESULTS_PER_MESSAGE: 'fill' } : {}),
    },
  });
  server.send(
    deployed.requestQueueUrl,
    Array.from({ length: MESSAGES }, (_, index) => lookup(index)),
  );
  const worker = deployed.start();
  await until(() => server.counts(deployed.resultQueueUrl).ready > 0);
  const answeredAt = Date.now();
  await until(() => Date.now() >= answeredAt + ms);
  return { ...deployed, worker };
}

describe('a worker under load', () => {
  it.each(MOMENTS)('loses and hides nothing by SIGTERM, after %j', async (moment) => {
    const { worker, ...deployed } = await underLoad(moment);
    worker.send('SIGTERM');

    expect(await worker.ended).toEqual({ code: 0, signal: null });
    for (const seconds of Object.values(server.secondsInFlight(deployed.requestQueueUrl))) {
      expect(seconds).toBeLessThanOrEqual(HEARTBEAT_SECONDS);
    }
    const answers = await afterAnother(server, deployed, MESSAGES);

    expect(answers).toHaveLength(MESSAGES);
    expect(new Set(answers.map(({ message_id }) => message_id)).size).toBe(MESSAGES);
    expect(new Set(answers.map(({ id }) => id)).size).toBe(MESSAGES);
  });

  it.each(MOMENTS.slice(0, Math.ceil(TIMES / 3)))('loses nothing by SIGKILL, after %j', async (moment) => {
    const { worker, ...deployed } = await underLoad(moment);
    worker.send('SIGKILL');
    await worker.ended;
    const answers = await afterAnother(server, deployed, MESSAGES);

    const byId = Map.groupBy(answers, ({ message_id }) => message_id);
    expect(byId.size).toBe(MESSAGES);
    for (const same of byId.values()) {
      const contents = same.map(({ sentAt: _, ...answer }) => JSON.stringify(answer));
      expect(new Set(contents).size).toBe(1);
    }
  });
});
