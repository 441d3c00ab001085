import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { createMonitor, createTimeline, type Monitor, SECONDS_KEPT } from '../../../../cli/page/pageMonitor.ts';
import type { InvocationSeen } from '../../../../cli/page/wire.ts';
import { failure } from '../../../../lambda/core/failure.ts';
import type { Outcome, Result, ResultWriter } from '../../../../lambda/core/record.ts';
import { recordingTelemetry, sqsRecord } from '../../../helpers/handler.ts';

const ANSWERED: Outcome = { status: 'answered', failures: [], requests: 1 };
const NOT_DONE = new AbortController().signal;

function record(messageId: string, isOwn = false): SQSRecord {
  const { attributes } = sqsRecord('');
  return sqsRecord('', {
    messageId,
    attributes: { ...attributes, SentTimestamp: '1000' },
    messageAttributes: isOwn ? { 'batchscore-page': { stringValue: 'sent', dataType: 'String' } } : {},
  });
}

/** Takes every result but those of `refuses`. */
function store(refuses: readonly string[] = []): ResultWriter & { readonly taken: string[] } {
  const taken: string[] = [];
  return {
    taken,
    async write(results) {
      return results.map(({ messageId }) => {
        if (refuses.includes(messageId)) return failure('WRITE_FAILED', 'full');
        taken.push(messageId);
        return { written: true };
      });
    },
  };
}

function result(messageId: string, body = `{"message_id":"${messageId}","outputs":[]}`): Result {
  return { messageId, body, messageGroupId: undefined };
}

function invoke(monitor: Monitor, records: readonly SQSRecord[], work: () => Promise<void>): Promise<unknown> {
  const batch = { records: [...records], endedBecause: 'window' as const };
  return monitor.around(10)(batch, async () => {
    await work();
    return { failed: new Set<string>() };
  });
}

describe('the monitor', () => {
  it('keeps invocations apart that go on at the same time', async () => {
    const monitor = createMonitor(() => 3_000);
    const host = recordingTelemetry();
    const { outcomes } = monitor.alsoTelling(host);
    const first = Promise.withResolvers<void>();
    const begun = invoke(monitor, [record('a'), record('b')], async () => {
      await first.promise;
      outcomes([ANSWERED, { status: 'retry', failure: failure('DEADLINE', 'late') }], []);
    });
    await invoke(monitor, [record('c')], async () => {
      const failures = [failure('INVALID_JSON', 'none'), failure('INVALID_JSON', 'none')];
      outcomes([{ status: 'answered', failures, requests: 3 }], []);
    });
    first.resolve();
    await begun;

    const { invocations, totals } = monitor.seen();
    expect(invocations).toMatchObject([
      { number: 2, records: 1, errors: 2, retried: 0 },
      { number: 1, records: 2, errors: 0, retried: 1, batchSize: 10, waitedMs: 2_000 },
    ]);
    expect(host.outcomesOfInvocations).toHaveLength(2);
    expect(totals).toEqual({ answered: 2, errors: { INVALID_JSON: 2 }, retries: { DEADLINE: 1 } });
  });

  it('writes no results of what the page sent, with verdicts in order, and shows what was taken alone', async () => {
    const monitor = createMonitor(() => 3_000);
    const others = store(['d']);
    const writer = monitor.through(others);
    const records = [record('a'), record('b', true), record('c', true), record('d')];
    let verdicts: readonly unknown[] = [];
    await invoke(monitor, records, async () => {
      verdicts = await writer.write(
        records.map(({ messageId }) => result(messageId)),
        NOT_DONE,
      );
    });
    expect(others.taken).toEqual(['a']);
    const written = { written: true };
    expect(verdicts).toMatchObject([written, written, written, { code: 'WRITE_FAILED' }]);
    expect(monitor.seen().results.map(({ messageId }) => messageId)).toEqual(['a', 'b', 'c']);
  });

  it('knows errors, alone and among the answers to a packed message, from scores that quote one', async () => {
    const monitor = createMonitor();
    const error = '{"message_id":"e","id":"a\\"b","code":"INVALID_JSON","error":"no"}';
    const quoting = `{"message_id":"q","outputs":[{"data":[${JSON.stringify(error)}]}]}`;
    const results = [
      result('e', error),
      result('p', `[{"message_id":"p","outputs":[]},${error}]`),
      result('q', quoting),
    ];
    const writer = monitor.through(store());
    await invoke(
      monitor,
      results.map(({ messageId }) => record(messageId)),
      async () => {
        await writer.write(results, NOT_DONE);
      },
    );
    const errors = monitor.seen().results.filter(({ isError }) => isError);
    expect(errors.map(({ messageId }) => messageId)).toEqual(['e', 'p']);
    expect(monitor.find('q')).toMatchObject({ messageId: 'q', isError: false, answeredMs: expect.any(Number) });
  });

  it('holds a bounded part of large results, and of many', async () => {
    const monitor = createMonitor();
    const writer = monitor.through(store());
    const records = Array.from({ length: 1_000 }, (_, index) => record(String(index), true));
    await invoke(monitor, records, async () => {
      const body = `{"message_id":"1","code":"X","error":"${'é'.repeat(100_000)}"}`;
      await writer.write(
        records.map(({ messageId }) => result(messageId, body)),
        NOT_DONE,
      );
    });
    const { results } = monitor.seen();
    expect(results).toHaveLength(6);
    expect([monitor.find('1'), monitor.find('500')]).toEqual([undefined, expect.anything()]);
    expect(results[0]).toMatchObject({ characters: 100_040, body: expect.stringMatching(/^.{16384}$/) });
  });
});

const INVOCATION: InvocationSeen = {
  ...{ number: 1, at: 0, records: 40, batchSize: 50, endedBecause: 'window', waitedMs: 1, durationMs: 1 },
  ...{ errors: 3, retried: 2 },
};

describe('the timeline', () => {
  it('counts what ends in a second, and tells it once the second is over', () => {
    let ms = 10_900;
    const timeline = createTimeline(() => ms);
    timeline.ended(INVOCATION);
    timeline.ended(INVOCATION);
    timeline.answered(7);
    expect(timeline.all()).toEqual([]);
    ms = 11_000;
    expect(timeline.all()).toEqual([{ at: 10, answered: 1, records: 80, room: 100, p50Ms: 7, p99Ms: 7 }]);
  });

  it('tells the median and the 99th percentile of the times to answer', () => {
    let ms = 0;
    const timeline = createTimeline(() => ms);
    for (let time = 200; time > 0; time--) timeline.answered(time);
    ms = 1_000;
    expect(timeline.all()).toMatchObject([{ p50Ms: 101, p99Ms: 199 }]);
  });

  it('keeps five minutes, however long nothing happened', () => {
    let ms = 0;
    const timeline = createTimeline(() => ms);
    ms = 10 ** 12;
    expect(timeline.all()).toHaveLength(SECONDS_KEPT);
    expect(timeline.all().at(-1)?.at).toBe(10 ** 9 - 1);
    ms += 5_000;
    expect(timeline.all()).toHaveLength(SECONDS_KEPT);
  });
});
