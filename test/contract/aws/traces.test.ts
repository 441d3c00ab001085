import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { type Attributes, type Context, type Span, type SpanOptions, type Tracer, trace } from '@opentelemetry/api';
import type { SQSRecord } from 'aws-lambda';
import { createHandler, withTraces } from '../../../lambda/hosts/createHandler.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import {
  composed,
  invoke,
  lambdaContext,
  lookupRequest,
  recordingTelemetry,
  sqsEvent,
  sqsRecord,
} from '../../helpers/handler.ts';
import { lookupModel } from '../../helpers/onnxModels.ts';

const server = useSqsServer();

/** What an exporter would be given of a span. */
interface Ended {
  readonly name: string;
  readonly parent: string | undefined;
  readonly startTime: number;
  readonly endTime: number;
  readonly attributes: Attributes;
  readonly failed: boolean;
  readonly links: readonly string[];
}

const ended: Ended[] = [];

/** An OpenTelemetry SDK as far as the public interface goes, which keeps what it would export. */
function createRecordingTracer(): Tracer {
  const startSpan = (name: string, options: SpanOptions = {}, parent?: Context): Span => {
    const attributes: Attributes = { ...options.attributes };
    let failed = false;
    const spanId = String(ended.length).padStart(16, 'f');
    const above = parent && trace.getSpan(parent);
    const span: Span = {
      spanContext: () => ({ traceId: 'a'.repeat(32), spanId, traceFlags: 1 }),
      setAttribute: (key, value) => span.setAttributes({ [key]: value }),
      setAttributes: (more) => Object.assign(attributes, more) && span,
      addEvent: () => span,
      addLink: () => span,
      addLinks: () => span,
      setStatus: ({ code }) => {
        failed = code === 2;
        return span;
      },
      updateName: () => span,
      isRecording: () => true,
      recordException: () => {},
      end: (endTime) =>
        void ended.push({
          name,
          parent: above && 'batchscore',
          startTime: Number(options.startTime),
          endTime: Number(endTime),
          attributes,
          failed,
          links: (options.links ?? []).map(({ context }) => `${context.traceId} ${context.spanId}`),
        }),
    };
    return span;
  };
  return {
    startSpan,
    startActiveSpan: () => {
      throw new Error('expected no span to be made active');
    },
  };
}

beforeEach(() => {
  ended.length = 0;
});
afterEach(() => trace.disable());

async function deployed() {
  const deployment = { sqs: server.client(), requestQueueUrl: server.queue(), resultQueueUrl: server.queue() };
  const models = { 'lookup/1/model.onnx': lookupModel() };
  const telemetry = withTraces(recordingTelemetry());
  return { ...deployment, handler: createHandler(await composed(deployment, telemetry, { models })) };
}

function sentBy(header: string): SQSRecord {
  const record = sqsRecord(lookupRequest(0));
  return { ...record, attributes: { ...record.attributes, AWSTraceHeader: header } };
}

it('gives each invocation a span, with one for each stage below it and links to what sent the messages', async () => {
  trace.setGlobalTracerProvider({ getTracer: createRecordingTracer });
  const { handler } = await deployed();
  const before = Date.now();
  const sender = 'Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1';

  await invoke(handler, [
    sentBy(sender),
    sentBy(sender),
    sentBy(sender.replace('Sampled=1', 'Sampled=0').replace('2793', '2794')),
    sentBy('Root=1;Parent="x";Sampled=1'),
    sqsRecord(lookupRequest(1)),
  ]);

  const invocation = ended.at(-1);
  expect(invocation).toMatchObject({
    name: 'batchscore',
    parent: undefined,
    failed: false,
    attributes: { records: 5, answered: 5, retried: 0 },
    links: ['5759e988bd862e3fe1be46a994272793 53995c3f42cd8ad8'],
  });
  const stages = ended.slice(0, -1);
  expect(new Set(stages.map(({ name }) => name))).toEqual(new Set(['decode', 'stack', 'run', 'encode', 'write']));
  expect(new Set(stages.map(({ parent }) => parent))).toEqual(new Set(['batchscore']));
  expect(stages.find(({ name }) => name === 'run')?.attributes).toMatchObject({ model: 'lookup', rows: 5 });
  for (const { startTime, endTime } of stages) {
    expect(startTime).toBeGreaterThanOrEqual(Math.max(before, invocation?.startTime ?? 0) - 1);
    expect(endTime).toBeGreaterThanOrEqual(startTime);
    expect(endTime).toBeLessThanOrEqual(invocation?.endTime ?? 0);
  }
});

it('marks the span of an invocation that hands records back', async () => {
  trace.setGlobalTracerProvider({ getTracer: createRecordingTracer });
  const { handler, resultQueueUrl } = await deployed();
  server.deleteQueue(resultQueueUrl);

  await invoke(handler, [sqsRecord(lookupRequest(0))]);

  expect(ended.at(-1)).toMatchObject({ name: 'batchscore', failed: true, attributes: { answered: 0, retried: 1 } });
  expect(ended.map(({ name }) => name)).toContain('acknowledge');
});

it('ends the span once, when the handler throws', async () => {
  const telemetry = withTraces(recordingTelemetry(), createRecordingTracer());
  const [tracing] = telemetry.middlewares;
  const event = sqsEvent([sqsRecord('{}')]);
  const request = { event, context: lambdaContext(), response: null, error: null, internal: {} };

  await tracing?.before?.(request);
  await tracing?.onError?.({ ...request, error: new Error('a bug') });
  await tracing?.after?.(request);

  expect(ended.map(({ name }) => name)).toEqual(['batchscore']);
});

it('changes nothing where no OpenTelemetry SDK is registered', async () => {
  const { handler } = await deployed();

  expect(await invoke(handler, [sqsRecord(lookupRequest(0))])).toEqual({ batchItemFailures: [] });

  expect(ended).toEqual([]);
});
