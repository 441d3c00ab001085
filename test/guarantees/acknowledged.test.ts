import { beforeAll, describe, expect, it } from '@jest/globals';
import { MAX_RECEIVES } from '../../lambda/core/limits.ts';
import { useS3Server } from '../helpers/awsServers.ts';
import { giveAnswer, refusesXml, type Step } from '../helpers/frontServer.ts';
import { HOSTS, type Host, type HostName, LOOKUP, lookup, SLOW, slow, useHosts } from '../helpers/hosts.ts';
import { FAULTS, type SqsCall } from '../helpers/strictSqs.ts';

const hosts = useHosts();
const s3 = useS3Server();
const FIVE = Array.from({ length: 5 }, (_, index) => lookup(index));
const NO_JSON = 'not JSON';
/** Longest of the first receives, in seconds. Jitter takes up to an eighth off. */
const DELAYS = [1, 2, 3, 4, 6, 10];

function expectDelays(seconds: readonly number[]): void {
  for (const [receive, longest] of DELAYS.slice(0, seconds.length).entries()) {
    expect(seconds[receive]).toBeGreaterThanOrEqual(Math.round(longest * (7 / 8)) - 1);
    expect(seconds[receive]).toBeLessThanOrEqual(longest);
  }
}

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
});

describe('Acknowledged: could not be scored or written this time', () => {
  it.each(HOSTS)('comes back after 1, 2, 3, 4 and 6 s, and is scored when the store is back: %s', async (name) => {
    const host = await hosts.start(name, { models: LOOKUP });
    let ids: readonly string[] = [];
    const isOut = () => Number(host.receives(ids)[0]) < 6;
    // One message: of several, written in one call, some may be ahead of others.
    const delays = delaysAsked(({ operation, queue }) =>
      operation === 'SendMessageBatch' && queue === host.results && isOut() ? FAULTS.throttled : undefined,
    );
    ids = host.send([lookup(0)]);
    await host.become('deleted', ids);

    expect(host.receives(ids)).toEqual([6]);
    expect(delays).toHaveLength(5);
    expectDelays(delays);
  });

  it.each(HOSTS)(
    'is among the dead letters after twenty receives, more than an hour after the first: %s',
    async (name) => {
      // Once it is decoded, less is left than is kept for writes.
      const environment = { BATCHSCORE_DEADLINE_MARGIN_MS: '4999' };
      const host = await hosts.start(name, { models: SLOW, timeoutSeconds: 5, environment });
      const delays = delaysAsked();
      const [id = ''] = host.send([slow(50)]);
      await host.become('dead', [id]);

      expect(delays).toHaveLength(MAX_RECEIVES);
      expectDelays(delays);
      expect(delays.slice(0, -1).reduce((sum, seconds) => sum + seconds, 0)).toBeGreaterThan(3_600);
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
      const ids = host.send(bodies, (index) => `group-${index % 2}`);
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

describe('Acknowledged: was held by a worker that ended before scoring it', () => {
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
