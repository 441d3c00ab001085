import { beforeAll, describe, expect, it } from '@jest/globals';
import { useS3Server } from '../helpers/awsServers.ts';
import { giveAnswer, refusesXml, type Step } from '../helpers/frontServer.ts';
import { HOSTS, type Host, type HostName, LOOKUP, lookup, SLOW, slow, useHosts } from '../helpers/hosts.ts';
import { FAULTS, type SqsCall } from '../helpers/strictSqs.ts';

const hosts = useHosts();
const s3 = useS3Server();
const FIVE = Array.from({ length: 5 }, (_, index) => lookup(index));
const NO_JSON = 'not JSON';
/** The shortest and the longest of each receive, in seconds. */
const OUTAGE_DELAYS = [
  [1, 1],
  [14, 16],
  [224, 256],
] as const;

/** The seconds that messages are hidden for from now on, one call after the other. */
function delaysAsked(meanwhile: (call: SqsCall) => typeof FAULTS.throttled | undefined = () => undefined): number[] {
  const delays: number[] = [];
  hosts.intercept((call) => {
    if (call.operation === 'ChangeMessageVisibilityBatch') {
      for (const [, seconds] of call.body.matchAll(/"VisibilityTimeout":\s?(\d+)/g)) delays.push(Number(seconds));
    }
    return meanwhile(call);
  });
  return delays;
}

describe.each(HOSTS)('what is acknowledged when, by %s', (name) => {
  let host: Host;
  let isDenied: () => boolean = () => false;
  let bucket: string;
  beforeAll(async () => {
    const step: Step = (exchange) => (isDenied() ? refusesXml(403, 'AccessDenied')(exchange) : giveAnswer(exchange));
    const front = await s3.front(...Array<Step>(1_000).fill(step));
    bucket = await s3.bucket();
    const environment = {
      AWS_ENDPOINT_URL_S3: front.endpoint,
      BATCHSCORE_RESULTS: 'queue,bucket',
      BATCHSCORE_RESULT_BUCKET: bucket,
    };
    host = await hosts.start(name, { models: LOOKUP, environment });
  });

  describe('Acknowledged: was scored', () => {
    it('is deleted once every result store has taken the scores', async () => {
      const ids = host.send(FIVE);
      isDenied = () => host.receives(ids).some((receives) => receives < 2);
      const early: string[] = [];
      hosts.intercept(() => {
        if (isDenied()) early.push(...host.fates(ids).filter((fate) => fate === 'deleted'));
        return undefined;
      });
      const answers = await host.answers(ids);
      await host.become('deleted', ids);

      expect(early).toEqual([]);
      expect(answers.map(({ outputs }) => outputs?.[0]?.data)).toEqual([[10], [20], [30], [10], [20]]);
      const objects = await Promise.all((await s3.keys(bucket)).map((key) => s3.text(bucket, key)));
      for (const id of ids) expect(objects.join('')).toContain(id);
    });
  });

  describe('Acknowledged: can never be scored', () => {
    it('is deleted once the error is written, at its first receive', async () => {
      const ids = host.send([NO_JSON, lookup(0)]);
      await host.become('deleted', ids);

      expect(await host.answers(ids)).toMatchObject([{ code: 'INVALID_JSON' }, { model_name: 'lookup' }]);
      expect(host.receives(ids)).toEqual([1, 1]);
    });
  });

  describe('Acknowledged: met an outage', () => {
    it('comes back after 1 s, 16 s and 4 minutes, and is scored when the outage is over', async () => {
      // One message: of several, written in one call, some may be ahead of others.
      let ids: readonly string[] = [];
      const isOut = () => Number(host.receives(ids)[0]) < 4;
      const delays = delaysAsked(({ operation, queue }) =>
        operation === 'SendMessageBatch' && queue === host.results && isOut() ? FAULTS.throttled : undefined,
      );
      ids = host.send([lookup(0)]);
      await host.become('deleted', ids);

      expect(host.receives(ids)).toEqual([4]);
      expect(delays).toHaveLength(3);
      for (const [receive, [shortest, longest]] of OUTAGE_DELAYS.entries()) {
        expect(delays[receive]).toBeGreaterThanOrEqual(shortest);
        expect(delays[receive]).toBeLessThanOrEqual(longest);
      }
    });
  });
});

describe('Acknowledged: could not be scored or written this time', () => {
  it.each(HOSTS)(
    'comes back after a backoff of up to 1, 2, 4 and 8 s, and is among the dead letters after five receives: %s',
    async (name) => {
      // Once it is decoded, less is left than is kept for writes.
      const environment = { BATCHSCORE_DEADLINE_MARGIN_MS: '4999' };
      const host = await hosts.start(name, { models: SLOW, timeoutSeconds: 5, environment });
      const delays = delaysAsked();
      const [id = ''] = host.send([slow(50)]);
      await host.become('dead', [id]);

      expect(delays).toHaveLength(5);
      for (const [receive, seconds] of delays.entries()) {
        expect(seconds).toBeGreaterThanOrEqual(2 ** receive / 2);
        expect(seconds).toBeLessThanOrEqual(2 ** receive);
      }
      expect(host.written()).toEqual([]);
      expect(hosts.sqs().history(host.dead)).toMatchObject([{ messageId: id, fate: 'ready' }]);
    },
  );

  it.each(HOSTS)(
    'on a FIFO queue nothing after it in its message group is written or acknowledged: %s',
    async (name) => {
      const host = await hosts.start(name, { models: LOOKUP, fifo: true });
      const bodies = Array.from({ length: 8 }, (_, index) => lookup(index));
      const overtaken: string[] = [];
      hosts.intercept(({ queue, body }) => {
        const [first = '', ...later] = affected.slice(1);
        const written = host.written().map(({ message_id }) => message_id);
        if (!written.includes(first)) overtaken.push(...later.filter((id) => written.includes(id)));
        return queue === host.results && body.includes(first) && (host.receives([first])[0] ?? 0) < 3
          ? FAULTS.denied
          : undefined;
      });
      const ids = host.send(bodies, (index) => `group ${index % 2}`);
      const [affected, others] = [0, 1].map((group) => ids.filter((_, index) => index % 2 === group)) as [
        string[],
        string[],
      ];
      await host.become('deleted', ids);

      expect(overtaken).toEqual([]);
      expect(host.receives([affected[1] as string])).toEqual([3]);
      const order = host.written().map(({ message_id }) => message_id);
      for (const group of [affected, others]) expect(order.filter((id) => group.includes(id))).toEqual(group);
    },
  );
});

describe('Acknowledged: was held by a worker that had no time left to score it before it had to end', () => {
  it('stays hidden until the worker polls no more, and comes back then, for one receive', async () => {
    const worker: HostName = 'the worker';
    const host = await hosts.start(worker, { models: { ...LOOKUP, ...SLOW } });
    const openAtHandBack: number[] = [];
    hosts.intercept(({ operation, queue, body }) => {
      const isHandBack = operation === 'ChangeMessageVisibilityBatch' && /"VisibilityTimeout": ?0\b/.test(body);
      if (isHandBack && queue === host.requests) openAtHandBack.push(hosts.sqs().openPolls(host.requests));
      return undefined;
    });
    const ids = host.send(Array(3).fill(slow(600_000)));
    await host.become('in flight', ids);

    expect(await host.stop()).toBe(0);
    expect(new Set(openAtHandBack)).toEqual(new Set([0]));
    expect(host.fates(ids)).toEqual(['ready', 'ready', 'ready']);
    expect(host.receives(ids)).toEqual([1, 1, 1]);
    expect(await host.says('the worker has drained')).toMatchObject({ finished: 0, handedBack: 3 });
  });
});
