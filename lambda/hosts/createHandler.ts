import middy from '@middy/core';
import { context, type Link, type Span, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { createPowertoolsTelemetry, logFatal, logWarnings } from '../aws/powertools.ts';
import { createSqsCaller, HOST_PATIENCE } from '../aws/sqsWire.ts';
import type { Telemetry } from '../aws/telemetry.ts';
import { waitOrAbort, withTimeout } from '../core/concurrency.ts';
import { preview } from '../core/failure.ts';
import { isObject } from '../core/json.ts';
import type { MessageRecord, Outcome, TimeLimit } from '../core/record.ts';
import { CONFIG_KEYS } from '../settings.ts';
import { compose } from './compose.ts';
import { loadConfig } from './config.ts';
import { type ScoringDependencies, scoreRecords } from './records.ts';

export interface HandlerDependencies {
  readonly scoring: ScoringDependencies;
  /** Sets when records to retry become visible again. */
  delayRetries(records: readonly MessageRecord[], signal: AbortSignal): Promise<unknown>;
  readonly telemetry: Telemetry;
  /** Announces records that go to the dead-letter queue. Never throws. @default nothing is announced */
  readonly announceDeadLetters?:
    | ((outcomes: readonly Outcome[], records: readonly MessageRecord[]) => Promise<void>)
    | undefined;
}

export type ScoringHandler = (event: SQSEvent, context: Context) => Promise<SQSBatchResponse>;

/**
 * Creates the handler of the Lambda entry from the environment.
 *
 * @throws Error if the configuration is wrong or a model is broken. The error is logged.
 */
export async function startFunction(environment: NodeJS.ProcessEnv): Promise<ScoringHandler> {
  return start(environment).catch((error: unknown): never => {
    logFatal('the function cannot start', error, environment[CONFIG_KEYS.serviceName]);
    throw error;
  });
}

async function start(environment: NodeJS.ProcessEnv): Promise<ScoringHandler> {
  const config = loadConfig(environment);
  const telemetry = createPowertoolsTelemetry(config);
  const { logger } = telemetry;
  const warn = (message: string) => logger.warn(message);
  logWarnings(logger);
  const composition = await compose(config, {
    clients: {
      sqs: createSqsCaller(HOST_PATIENCE),
      s3: async () => (await import('../aws/awsClients.ts')).createS3Client(HOST_PATIENCE),
    },
    telemetry: withTraces(telemetry),
    warn,
    inform: (message) => logger.info(message),
  });
  return createHandler(composition);
}

/**
 * Creates the Lambda handler for an SQS event source mapping with `ReportBatchItemFailures`.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
 */
export function createHandler(deps: HandlerDependencies): ScoringHandler {
  const { scoring, telemetry } = deps;
  const { deadlineMarginMs } = scoring.limits;
  return middy<SQSEvent, SQSBatchResponse>({ timeoutEarlyInMillis: 0 })
    .use([...telemetry.middlewares])
    .handler(async (event, context): Promise<SQSBatchResponse> => {
      refuseOtherEvents(event);
      const { Records } = event;
      const outcomes = await scoreRecords(Records, scoring, timeLimitOf(context, deadlineMarginMs / 2));
      telemetry.outcomes(outcomes, Records);
      const isAnswered = (index: number) => outcomes[index]?.status === 'answered';
      const retried = Records.filter((_, index) => !isAnswered(index));
      const { signal } = timeLimitOf(context, deadlineMarginMs / 4);
      const told = deps.announceDeadLetters?.(outcomes, Records);
      const capturing = scoring.capture?.flush();
      await handBack(retried, signal, deps);
      // An unfinished upload continues in the next invocation.
      if (capturing) await waitOrAbort(withTimeout(capturing, CAPTURE_MS), signal);
      if (told) await waitOrAbort(told, signal);
      return { batchItemFailures: retried.map(({ messageId }) => ({ itemIdentifier: messageId })) };
    });
}

/** Maximum time that an invocation waits for its samples to be stored. */
const CAPTURE_MS = 250;

/** @throws Error if the function was not invoked by SQS */
function refuseOtherEvents(event: unknown): void {
  const records = isObject(event) ? event.Records : undefined;
  const isRecord = (one: unknown): boolean =>
    isObject(one) && typeof one.messageId === 'string' && typeof one.body === 'string';
  if (Array.isArray(records) && records.every(isRecord)) return;
  throw new Error(
    `expected an event of SQS with Records, each with a messageId and a body, got ${describeEvent(event)}; ` +
      'send a message to the request queue, whose event source mapping invokes the function',
  );
}

const KEYS_SHOWN = 3;

function describeEvent(event: unknown): string {
  if (!isObject(event)) return preview(event);
  if (Array.isArray(event.Records)) return 'records of another service';
  const keys = Object.keys(event);
  const shown = keys.slice(0, KEYS_SHOWN).map(preview).join(', ');
  return keys.length === 0 ? 'an object without keys' : `the keys ${shown}${keys.length > KEYS_SHOWN ? ', …' : ''}`;
}

/** Sets when records come back. Returning their IDs then hands them back. */
async function handBack(
  retried: readonly MessageRecord[],
  signal: AbortSignal,
  { scoring: { observer, now }, delayRetries }: HandlerDependencies,
): Promise<void> {
  if (retried.length === 0) return;
  const startedAt = now();
  await delayRetries(retried, signal);
  observer.stage?.('acknowledge', startedAt, now(), { retried: retried.length });
}

/** Returns a time limit that aborts with `leftMs` left: half of the margin to score, a quarter to hand back. */
function timeLimitOf(context: Context, leftMs: number): TimeLimit {
  const workingMs = Math.floor(Math.max(0, context.getRemainingTimeInMillis() - leftMs));
  return { remainingMs: () => context.getRemainingTimeInMillis(), signal: AbortSignal.timeout(workingMs) };
}

/**
 * Adds OpenTelemetry traces to `telemetry`: for each invocation a span `batchscore` below the active one, with a child
 * span for each stage and links to the spans that sent the messages. Without a registered OpenTelemetry SDK, or if it
 * does not sample, it does nothing.
 *
 * @param tracer creates the spans. @default the tracer of the registered SDK
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
        // Work of an earlier invocation may end in this one.
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
    middlewares: [
      {
        before({ event: { Records } }) {
          const startedAt = performance.now();
          // The environment may have been frozen since the monotonic clock started.
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
  readonly startedAt: number;
  /** Offset from `performance.now` to milliseconds since the epoch. */
  readonly epochMs: number;
}

/**
 * Returns links to the spans that sent the messages, one for each sampled trace in X-Ray's header:
 * `Root=1-…;Parent=…;Sampled=1`.
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
