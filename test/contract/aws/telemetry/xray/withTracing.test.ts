import { afterEach, describe, expect, it } from '@jest/globals';
import { withTracing } from '../../../../../lambda/aws/xray.ts';
import { recordingTelemetry } from '../../../../helpers/handler.ts';
import { lambdaContext, sqsEvent, sqsRecord } from '../../../../helpers/sqsEvents.ts';

afterEach(() => {
  delete process.env._X_AMZN_TRACE_ID;
});

/** Telemetry of an invocation that has begun and is sampled, and what it has done so far. */
async function begun() {
  process.env._X_AMZN_TRACE_ID = 'Root=1-5759e988-bd862e3fe1be46a994272793;Parent=557abcec3ee5a047;Sampled=1';
  const done: string[] = [];
  const telemetry = withTracing(
    { ...recordingTelemetry(), hostEnds: (reason) => void done.push(reason) },
    { serviceName: 'mine', send: (document) => void done.push(JSON.parse(document).name) },
  );
  const [tracing] = telemetry.middlewares;
  const request = {
    event: sqsEvent([sqsRecord('{}')]),
    context: lambdaContext(),
    response: null,
    error: null,
    internal: {},
  };
  await tracing?.before?.(request);
  return { telemetry, tracing, request, done };
}

describe('the trace of an invocation', () => {
  it('is sent before the host ends itself', async () => {
    const { telemetry, done } = await begun();

    telemetry.hostEnds('a run is stuck');

    expect(done).toEqual(['batchscore', 'a run is stuck']);
  });

  it('is sent when the invocation throws, once', async () => {
    const { tracing, request, done } = await begun();

    await tracing?.onError?.({ ...request, error: new Error('a bug') });
    await tracing?.after?.(request);

    expect(done).toEqual(['batchscore']);
  });
});
