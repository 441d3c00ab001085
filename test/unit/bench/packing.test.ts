import { describe, expect, it } from '@jest/globals';
import { billedSends, toPackedRecords } from '../../../bench/workload/messages.ts';
import { scenarioNamed } from '../../../bench/workload/scenarios.ts';

const SCENARIO = scenarioNamed('mlp-small');
const KIB = 1024;

describe.each(['json', 'binary'] as const)('requests packed into messages, %s', (encoding) => {
  const single = toPackedRecords(SCENARIO, 250, encoding, 1).map(({ body }) => JSON.parse(body));

  it('are the same requests in the same order', () => {
    const packed = toPackedRecords(SCENARIO, 250, encoding, 100).map(({ body }) => JSON.parse(body));
    expect(packed.map((requests) => requests.length)).toEqual([100, 100, 50]);
    expect(packed.flat()).toEqual(single);
  });

  it('fill what SQS bills as one request, and no more', () => {
    const bodies = toPackedRecords(SCENARIO, 250, encoding, 'fill').map(({ body }) => body);
    expect(bodies.flatMap((body) => JSON.parse(body))).toEqual(single);
    const longest = Math.max(...single.map((request) => JSON.stringify(request).length));
    for (const { length } of bodies) expect(length).toBeLessThanOrEqual(64 * KIB);
    for (const { length } of bodies.slice(0, -1)) expect(length).toBeGreaterThan(64 * KIB - longest - 2);
  });
});

describe('billedSends', () => {
  it('sends ten messages a call, of 64 KiB for one request', () => {
    expect(billedSends(Array(25).fill(100))).toBe(3);
    expect(billedSends(Array(10).fill(64 * KIB))).toBe(10);
    expect(billedSends(Array(10).fill(64 * KIB + 1))).toBe(11);
  });

  it('sends at most 1 MiB a call', () => {
    expect(billedSends([600 * KIB, 600 * KIB])).toBe(2 * 10);
    expect(() => billedSends([1025 * KIB])).toThrow('expected messages of at most 1048576 bytes');
  });
});
