import { describe, expect, it } from '@jest/globals';
import { useDynamoDbServer, useS3Server } from '../helpers/awsServers.ts';
import { answersJson, giveAnswer, refusesXml, type Step } from '../helpers/frontServer.ts';
import { HOSTS, LOOKUP, lookup, useHosts } from '../helpers/hosts.ts';
import { FAULTS } from '../helpers/strictSqs.ts';

const hosts = useHosts();
const TENTH_MS = 100;
/** A second of visibility takes a tenth of one here. */
const slowHosts = useHosts(TENTH_MS);
const dynamodb = useDynamoDbServer();
const s3 = useS3Server();

/** At the pace of `hosts.ts`. */
const HOUR_MS = 3_600 / 2;
const MESSAGES = 40;
const BODIES = Array.from({ length: MESSAGES }, (_, index) => lookup(index));

/** Whether the hour is not over that begins when this is asked first. */
function anHour(): () => boolean {
  let until: number | undefined;
  return () => {
    until ??= performance.now() + HOUR_MS;
    return performance.now() < until;
  };
}

/** Answers `step` while it is so, and what is behind it afterwards. */
function during(isOut: () => boolean, step: Step): Step[] {
  return Array<Step>(20_000).fill((exchange) => (isOut() ? step(exchange) : giveAnswer(exchange)));
}

interface Taken {
  /** What the host is told besides. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly bodies?: readonly string[];
  readonly isResultQueue?: boolean;
}

/** Every store that a host needs, and how it is taken away. */
const OUTAGES: readonly (readonly [what: string, take: (isOut: () => boolean) => Promise<Taken> | Taken])[] = [
  ['the result queue is missing', () => ({ isResultQueue: true })],
  [
    'the result table is missing',
    async (isOut) => {
      const missing = {
        __type: 'com.amazonaws.dynamodb.v20120810#ResourceNotFoundException',
        message: 'no such table',
      };
      const front = await dynamodb.front(...during(isOut, answersJson(400, missing)));
      const table = await dynamodb.table();
      return {
        environment: {
          BATCHSCORE_RESULTS: 'table',
          BATCHSCORE_RESULT_TABLE: table,
          AWS_ENDPOINT_URL_DYNAMODB: front.endpoint,
        },
      };
    },
  ],
  [
    'the result bucket is denied',
    async (isOut) => {
      const front = await s3.front(...during(isOut, refusesXml(403, 'AccessDenied')));
      const bucket = await s3.bucket();
      return {
        environment: {
          BATCHSCORE_RESULTS: 'bucket',
          BATCHSCORE_RESULT_BUCKET: bucket,
          AWS_ENDPOINT_URL_S3: front.endpoint,
        },
      };
    },
  ],
  [
    'the payload bucket is missing',
    async (isOut) => {
      const front = await s3.front(...during(isOut, refusesXml(404, 'NoSuchBucket')));
      const bucket = await s3.bucket();
      const bodies: string[] = [];
      for (let index = 0; index < MESSAGES; index++) {
        await s3.put(bucket, `requests/${index}`, lookup(index));
        const pointer = { s3BucketName: bucket, s3Key: `requests/${index}` };
        bodies.push(JSON.stringify(['software.amazon.payloadoffloading.PayloadS3Pointer', pointer]));
      }
      return { environment: { BATCHSCORE_PAYLOAD_BUCKET: bucket, AWS_ENDPOINT_URL_S3: front.endpoint }, bodies };
    },
  ],
];

describe('Acknowledged: could not be scored or written this time', () => {
  describe.each(HOSTS)('an hour in which %s finds that', (name) => {
    it.each(OUTAGES)(
      '%s costs no message',
      async (_, take) => {
        const isOut = anHour();
        const { environment = {}, bodies = BODIES, isResultQueue = false } = await take(isOut);
        const host = await hosts.start(name, { models: LOOKUP, environment });
        hosts.intercept(({ queue }) =>
          isResultQueue && queue === host.results && isOut() ? FAULTS.missing : undefined,
        );
        const ids = host.send(bodies);

        await host.become('deleted', ids);
        expect(Math.max(...host.receives(ids))).toBeGreaterThan(1);
      },
      60_000,
    );
  });

  it.each(HOSTS)(
    '45 seconds without a result queue leave no message of %s hidden for more than 30 seconds after them',
    async (name) => {
      const host = await slowHosts.start(name, { models: LOOKUP });
      const startedAt = performance.now();
      const seconds = (): number => (performance.now() - startedAt) / TENTH_MS;
      let hiddenUntil = 0;
      slowHosts.intercept(({ operation, queue, body }) => {
        if (operation === 'ChangeMessageVisibilityBatch') {
          for (const [, delay] of body.matchAll(/"VisibilityTimeout":\s?(\d+)/g))
            hiddenUntil = Math.max(hiddenUntil, seconds() + Number(delay));
        }
        return queue === host.results && seconds() < 45 ? FAULTS.missing : undefined;
      });
      const ids = host.send(BODIES);

      await host.become('deleted', ids);
      expect(hiddenUntil).toBeGreaterThan(0);
      expect(hiddenUntil).toBeLessThan(45 + 30);
    },
    60_000,
  );

  it('a worker without its result queue pauses its polls: most messages are received once', async () => {
    const host = await hosts.start('the worker', { models: LOOKUP });
    const isOut = anHour();
    hosts.intercept(({ queue }) => (queue === host.results && isOut() ? FAULTS.denied : undefined));
    const ids = host.send(Array.from({ length: 2_000 }, (_, index) => lookup(index)));

    await host.become('deleted', ids);
    // What it had room for before the first pause, and what it received between two.
    expect(host.receives(ids).filter((times) => times > 1).length).toBeLessThan(500);
  }, 60_000);
});
