import { context, type Link, type Span, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api';
import type { Telemetry } from './telemetry.ts';

/**
 * Traces each invocation by OpenTelemetry, besides what `telemetry` does: a span `batchscore` below the one that is active
 * when the invocation starts, with a span for each stage below it and links to the spans that sent the messages. Where no
 * OpenTelemetry SDK is registered in the process, or it does not sample, no span is recorded and nothing else is done.
 *
 * @param tracer whose spans they are. @default that of whatever SDK is registered
 */
export function withTraces(telemetry: Telemetry, tracer: Tracer = trace.getTracer('batchscore')): Telemetry {
  let invocation: TracedInvocation | undefined;
  const end = (): void => {
    invocation?.span.end(invocation.epochMs + performance.now());
    invocation = undefined;
  };
  return {
    ...telemetry,
    observer: {
      ...telemetry.observer,
      stage(name, from, to, details) {
        telemetry.observer.stage?.(name, from, to, details);
        // What an invocation left behind may end in the next one.
        if (invocation === undefined || from < invocation.startedAt) return;
        const { span, epochMs } = invocation;
        const options = { startTime: epochMs + from, attributes: details };
        const stage = tracer.startSpan(name, options, trace.setSpan(context.active(), span));
        if ('failed' in details) stage.setStatus({ code: SpanStatusCode.ERROR });
        stage.end(epochMs + to);
      },
    },
    outcomes(outcomes, records) {
      telemetry.outcomes(outcomes, records);
      const retried = outcomes.filter(({ status }) => status === 'retry').length;
      invocation?.span.setAttributes({ answered: outcomes.length - retried, retried });
      if (retried > 0) invocation?.span.setStatus({ code: SpanStatusCode.ERROR });
    },
    hostEnds(reason) {
      end();
      telemetry.hostEnds(reason);
    },
    middlewares: [
      {
        before({ event: { Records } }) {
          const startedAt = performance.now();
          // An environment may have been frozen since the monotonic clock was started.
          const epochMs = Date.now() - startedAt;
          const links = linksOf(Records.map(({ attributes }) => attributes.AWSTraceHeader));
          const options = { startTime: epochMs + startedAt, attributes: { records: Records.length }, links };
          const span = tracer.startSpan('batchscore', options);
          invocation = span.isRecording() ? { span, startedAt, epochMs } : undefined;
        },
        after: end,
        onError: end,
      },
      ...telemetry.middlewares,
    ],
  };
}

interface TracedInvocation {
  readonly span: Span;
  /** As `performance.now` says it. */
  readonly startedAt: number;
  /** What turns a reading of `performance.now` into milliseconds since the epoch. */
  readonly epochMs: number;
}

/**
 * The spans that sent the messages, one of each trace, as X-Ray's header names them: `Root=1-…;Parent=…;Sampled=1`. A trace
 * that is not recorded leads nowhere.
 *
 * @see https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader
 */
function linksOf(headers: readonly (string | undefined)[]): Link[] {
  const byTrace = new Map<string, Link>();
  for (const header of headers) {
    if (!header?.includes('Sampled=1')) continue;
    const root = /\bRoot=1-([\da-f]{8})-([\da-f]{24})(?:;|$)/i.exec(header);
    const spanId = /\bParent=([\da-f]{16})(?:;|$)/i.exec(header)?.[1];
    if (root === null || spanId === undefined) continue;
    const traceId = `${root[1]}${root[2]}`.toLowerCase();
    if (!byTrace.has(traceId)) byTrace.set(traceId, { context: { traceId, spanId, traceFlags: 1, isRemote: true } });
  }
  return [...byTrace.values()];
}
