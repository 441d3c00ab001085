import { afterEach, describe, expect, it } from '@jest/globals';
import { headerOfInvocation, readTraceHeader } from '../../../../../lambda/aws/xray.ts';

const TRACE_ID = '1-5759e988-bd862e3fe1be46a994272793';
const HEADER = `Root=${TRACE_ID};Parent=557abcec3ee5a047;Sampled=1`;

afterEach(() => {
  Reflect.deleteProperty(globalThis, 'awslambda');
  delete process.env._X_AMZN_TRACE_ID;
});

describe('the tracing header', () => {
  it('is read in any order, with spaces and what else there is', () => {
    const read = { traceId: TRACE_ID, segmentId: '557abcec3ee5a047', sampled: true };
    expect(readTraceHeader(HEADER)).toEqual(read);
    expect(readTraceHeader(`Sampled=1; Self=1-2-3;Parent=557abcec3ee5a047; Root=${TRACE_ID};Lineage=a=b`)).toEqual(
      read,
    );
    expect(readTraceHeader(HEADER.replace('Sampled=1', 'Sampled=?'))).toEqual({ ...read, sampled: false });
  });

  it.each([
    undefined,
    '',
    `Root=${TRACE_ID};Sampled=1`,
    'Parent=557abcec3ee5a047;Sampled=1',
    HEADER.replace('1-', '2-'),
    HEADER.replace('557a', '557'),
    HEADER.replace('557a', '557a0'),
  ])('is none where it is %j', (header) => {
    expect(readTraceHeader(header)).toBeUndefined();
  });

  it('of an invocation is in the environment, or in the store of a runtime that has several at a time', () => {
    expect(headerOfInvocation()).toBeUndefined();
    process.env._X_AMZN_TRACE_ID = 'of the environment';
    expect(headerOfInvocation()).toBe('of the environment');
    Object.assign(globalThis, { awslambda: { InvokeStore: { getXRayTraceId: () => HEADER } } });
    expect(headerOfInvocation()).toBe(HEADER);
    Object.assign(globalThis, { awslambda: { InvokeStore: { getXRayTraceId: () => undefined } } });
    expect(headerOfInvocation()).toBe('of the environment');
  });
});
