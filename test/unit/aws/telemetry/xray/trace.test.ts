import { describe, expect, it } from '@jest/globals';
import { createTrace, type Trace } from '../../../../../lambda/aws/xray.ts';
import type { SegmentDocument } from '../../../../helpers/xrayDaemon.ts';

const PARENT = { traceId: '1-5759e988-bd862e3fe1be46a994272793', segmentId: '557abcec3ee5a047', sampled: true };

function opened(): Trace {
  return createTrace({ serviceName: 'mine', parent: PARENT, headers: [] });
}

function documentOf(trace: Trace): SegmentDocument {
  return JSON.parse(trace.end());
}

describe('a trace', () => {
  it('keeps the fifty longest stages in the order they began, and says what the others took', () => {
    const trace = opened();
    const startedAt = performance.now();
    const runs = 130;

    for (let run = 0; run < runs; run++) trace.stage('run', startedAt + run, startedAt + 2 * run, { run });

    const { subsegments = [], metadata } = documentOf(trace);
    const longest = Array.from({ length: 50 }, (_, index) => runs - 50 + index);
    expect(subsegments.map((one) => one.metadata?.batchscore?.run)).toEqual(longest);
    const left = Array.from({ length: runs - 50 }, (_, run) => run);
    const ms = left.reduce((sum, run) => sum + run);
    expect(metadata).toMatchObject({
      batchscore: { stagesLeftOut: { run: { count: left.length, ms: expect.closeTo(ms, 3) } } },
    });
  });

  it('leaves out what an earlier invocation left behind', () => {
    const before = performance.now();
    const trace = opened();

    trace.stage('run', before - 1, performance.now(), {});
    trace.stage('write', performance.now(), performance.now(), {});

    expect(documentOf(trace).subsegments?.map(({ name }) => name)).toEqual(['write']);
  });

  it('tells the time of day in seconds', () => {
    const before = Date.now() / 1000;
    const trace = opened();

    const { start_time, end_time } = documentOf(trace);

    expect(start_time).toBeGreaterThan(before - 0.01);
    expect(end_time).toBeLessThan(Date.now() / 1000 + 0.01);
  });

  it('marks a run that failed', () => {
    const trace = opened();

    trace.stage('run', performance.now(), performance.now(), { failed: 'DEADLINE' });

    expect(documentOf(trace).subsegments).toMatchObject([{ name: 'run', fault: true }]);
  });

  it('goes without its stages where they would make it too large', () => {
    const trace = opened();
    const model = 'm'.repeat(2_000);

    for (let run = 0; run < 50; run++) trace.stage('run', performance.now(), performance.now(), { model });

    const text = trace.end();
    expect(Buffer.byteLength(text)).toBeLessThan(64_000);
    expect(JSON.parse(text)).toMatchObject({ name: 'batchscore', trace_id: PARENT.traceId });
  });
});
